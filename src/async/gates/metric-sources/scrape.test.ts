import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakePrometheus } from "../../../../test/support/fake-prometheus.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { PageScrape } from "./scrape.ts";

const EPOCH = 1_800_000_000_000;
const NEVER = new AbortController().signal;

let clock: VirtualClock;
/** Any HTTP server will do for pages. */
let fake: FakePrometheus;
const open: PageScrape[] = [];

beforeEach(async () => {
  clock = new VirtualClock(EPOCH);
  fake = await FakePrometheus.start(clock);
});

afterEach(async () => {
  for (const page of open.splice(0)) await page.close();
  await fake.close();
});

function page(text: string, metric = "running", labels = {}, type = "text/plain") {
  fake.reply = () => ({ body: text, headers: { "content-type": type } });
  const scrape = new PageScrape({ url: `${fake.url}/some/metrics/?a=b`, metric, labels }, clock);
  open.push(scrape);
  return scrape;
}

const values = async (scrape: PageScrape) => (await scrape.query(NEVER)).samples.map(({ value }) => value);

describe("scraped pages (A-28)", () => {
  it("gives every sample of the metric with the wanted labels", async () => {
    const text = 'running{m="a",x="1"} 3\nrunning{m="b"} 4\nrunning_total 9\nrunning{m="a"} 5\nother{m="a"} 7\n';
    const scrape = page(text, "running", { m: "a" });
    expect(await scrape.query(NEVER)).toEqual({
      samples: [
        { labels: { m: "a", x: "1" }, value: 3 },
        { labels: { m: "a" }, value: 5 },
      ],
      time: EPOCH,
    });
    expect(fake.questions[0]).toMatchObject({ method: "GET", path: "/some/metrics/" });
    expect(await values(page(text))).toEqual([3, 4, 5]);
  });

  it("takes gauges, counters and untyped metrics, no parts of summaries", async () => {
    expect(await values(page("# TYPE running gauge\nrunning 1\n"))).toEqual([1]);
    expect(await values(page("# TYPE running counter\nrunning 1\n"))).toEqual([1]);
    expect(await values(page("running 1\n"))).toEqual([1]);
    expect(await values(page('# TYPE running summary\nrunning{quantile="0.5"} 1\n'))).toEqual([]);
  });

  it("a missing metric has no samples", async () => {
    expect(await values(page("other 1\n"))).toEqual([]);
    expect(await values(page(""))).toEqual([]);
  });

  it("is as old as its start, or as the page says", async () => {
    const scrape = page("running 1\n");
    fake.arrived = () => clock.advance(700);
    expect((await scrape.query(NEVER)).time).toBe(EPOCH);
    fake.arrived = () => {};
    const now = clock.wall();
    expect((await page(`running 1 ${now - 9000}\n`).query(NEVER)).time).toBe(now - 9000);
    expect((await page(`running 1 ${now + 9000}\n`).query(NEVER)).time).toBe(now);
    const seconds = page(
      `running 1 ${(now - 9000) / 1000}\n`,
      "running",
      {},
      "application/openmetrics-text; version=1",
    );
    expect((await seconds.query(NEVER)).time).toBe(now - 9000);
  });

  it.each([
    [500, "running 1\n", /HTTP 500/],
    [204, "", /HTTP 204/],
    [301, "", /HTTP 301/],
    [200, 'running{m="a} 1\n', /cannot be read/],
    [200, "running one\n", /cannot be read/],
    [200, "running 1\n".repeat(10_001), /more than 10000 samples/],
    [200, `# ${"x".repeat(5 << 20)}\nrunning 1\n`, /more than 4194304 bytes/],
  ])("status %d of %.20j is an error", async (status, body, problem) => {
    const scrape = page("");
    fake.reply = () => ({ status, body });
    await expect(scrape.query(NEVER)).rejects.toMatchObject({
      code: "METRIC_SOURCE",
      message: expect.stringMatching(problem),
    });
  });

  it("gives up after 10 s", async () => {
    const scrape = page("");
    fake.reply = () => "hang";
    const arrived = new Promise<void>((resolve) => {
      fake.arrived = resolve;
    });
    const asked = scrape.query(NEVER);
    const failed = expect(asked).rejects.toThrow("no answer within 10000 ms");
    await arrived;
    clock.advance(9999);
    expect(clock.pending).toBe(1);
    clock.advance(1);
    await failed;
  });
});
