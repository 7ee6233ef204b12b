import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DecisionsFeed } from "../../src/wires/admin/feed/decisions.ts";
import type { HistoryFeed, HistoryFigure } from "../../src/wires/admin/feed/history.ts";
import { Cleanup, Dispatching, inSeconds, ScriptedGateway } from "../dispatch/dispatching.ts";
import { startChromium } from "../support/chromium.ts";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { openStore } from "../support/dispatch-store.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { ROOT } from "../support/process.ts";
import { startPrometheus } from "../support/prometheus.ts";
import { fixedLimit } from "../support/slowness.ts";
import { endpointsFile, startSims } from "../support/stack.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";

/** The most clicks from the start of the page to an answer (docs/operate/page.md). */
const MOST_CLICKS = 5;
/** One request at a time for each server: with more callers than servers, some always wait. */
const CALLERS = 6;
const CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- { type: active-request-scorer }
- { type: queue-scorer }
- { name: slots, type: concurrency-detector, parameters: { maxConcurrency: 1 } }
schedulingProfiles:
- name: default
  plugins:
  - { pluginRef: active-request-scorer, weight: 2 }
  - { pluginRef: queue-scorer, weight: 1 }
flowControl:
  saturationDetector: { pluginRef: slots }
  defaultRequestTTL: 10m
`;
const FOLDER = mkdtempSync(join(tmpdir(), "sluice-questions-"));
const SCREENSHOTS = process.env["SLUICE_SCREENSHOTS"] ?? FOLDER;
mkdirSync(SCREENSHOTS, { recursive: true });

/** A new user with a page, whose clicks are counted. */
class NewUser {
  readonly page: Page;
  clicks = 0;

  private constructor(page: Page) {
    this.page = page;
  }

  /** Opens the page as the terminal names it. */
  static async at(browser: Browser, url: string): Promise<NewUser> {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    page.setDefaultTimeout(fixedLimit(20_000));
    await page.goto(url);
    await page.locator(".connection.live").waitFor();
    return new NewUser(page);
  }

  async click(target: Locator): Promise<void> {
    this.clicks++;
    await target.click();
  }

  /** Clicks a view in the navigation. */
  view(name: string): Promise<void> {
    return this.click(this.page.getByRole("navigation", { name: "Views" }).getByRole("link", { name }));
  }

  /** The rows of a table. */
  rows(label: string): Locator {
    return this.page.getByRole("group", { name: label, exact: true }).locator("tbody tr");
  }
}

describe("the questions of docs/operate/page.md", () => {
  const cleanup = new Cleanup();
  let browser: Browser;
  let gateway: TestGateway;
  let isOver = false;
  let calls: readonly Promise<void>[] = [];
  const config = join(FOLDER, "config.yaml");
  const feed = <T>(path: string): Promise<T> => getJson<T>(`${gateway.adminUrl}/debug/feed${path}`);

  /** One that asks, reads the answer, and asks again. */
  async function call(caller: number): Promise<void> {
    for (let n = 0; !isOver; n++)
      await ask(`${gateway.url}/v1/chat/completions`, {
        headers: { ...JSON_HEADERS, "x-request-id": `caller-${caller}-${n}` },
        body: chat(`question ${n} of ${caller}`, { stream: true, stream_options: { include_usage: true } }),
      }).catch(() => undefined);
  }

  beforeAll(async () => {
    browser = cleanup.add(await startChromium(), (each) => each.close());
    const quick = await startSims(2, ["--time-to-first-token", "50ms", "--inter-token-latency", "10ms"]);
    const slow = await startSims(1, ["--time-to-first-token", "600ms", "--inter-token-latency", "60ms"]);
    for (const { process } of [...quick, ...slow]) cleanup.add(process, (each) => each.stop());
    writeFileSync(config, CONFIG);
    // Each of the two needs the address of the other one.
    const toPrometheus = cleanup.add(await tcpProxy(0), (each) => each.close());
    gateway = await startGateway(endpointsFile([...quick, ...slow].map(({ port }) => port)), [
      ...["--config-file", config, "--full-records-every", "1"],
      ...["--prometheus", `http://127.0.0.1:${toPrometheus.port}`],
    ]);
    cleanup.add(gateway.process, (each) => each.stop());
    const prometheus = await startPrometheus({ targets: [new URL(gateway.adminUrl).host], scrapeIntervalMs: 500 });
    cleanup.add(prometheus, (each) => each.stop());
    toPrometheus.retarget(Number(new URL(prometheus.url).port));
    calls = Array.from({ length: CALLERS }, (_, caller) => call(caller));
    cleanup.add(calls, (all) => {
      isOver = true;
      return Promise.all(all);
    });
  });
  afterAll(() => cleanup.run());

  it("are the ones that are asked here", () => {
    const page = readFileSync(join(ROOT, "docs", "operate", "page.md"), "utf8");
    const asked = [...page.matchAll(/^## (.*\?)$/gm)].map(([, question]) => question);
    expect(asked).toEqual([
      ...["Which server is slow?", "Why did request X wait?", "What did yesterday's change do?"],
      "Is the backlog going to make it?",
    ]);
  });

  it("Which server is slow?", async () => {
    const user = await NewUser.at(browser, gateway.adminUrl);
    await user.view("Endpoints");
    const cellsOf = (name: string): Locator => user.rows("Endpoints").filter({ hasText: name }).locator("th, td");
    const heads = await user.page.getByRole("columnheader").allTextContents();
    const ttft = heads.indexOf("TTFT");
    for (const name of ["server-1", "server-2", "server-3"])
      await poll(`a time of ${name}`, async () => /\d/.test((await cellsOf(name).nth(ttft).textContent()) ?? ""));
    await user.click(user.page.getByRole("columnheader", { name: "TTFT" }).getByRole("button"));
    await user.click(user.rows("Endpoints").first().getByRole("link"));
    await user.page.getByRole("heading", { name: "default/server-3" }).waitFor();
    await user.page.getByRole("heading", { name: "States" }).waitFor();
    expect(user.clicks).toBeLessThanOrEqual(MOST_CLICKS);
    await user.page.close();
  });

  it("Why did request X wait?", async () => {
    const waited = await poll("a request that waited", async () =>
      (await feed<DecisionsFeed>("/decisions?reason=waited&limit=1")).rows.at(0),
    );
    const user = await NewUser.at(browser, gateway.adminUrl);
    await user.view("Decisions");
    await user.page.getByLabel("request ID").fill(waited.requestId);
    await user.click(user.rows("Decisions").getByRole("link", { name: waited.requestId, exact: true }));
    const steps = user.page.locator(".steps");
    await steps.getByText("left the queue").waitFor();
    expect(await steps.textContent()).toMatch(/queued\s*flow .* of band 0/);
    expect(await user.page.locator(".main").textContent()).toMatch(
      /The request waited .* in flow .* of band 0, behind \d+ requests?, until the saturation of \S+ was below the ceiling/,
    );
    // Who waits now, and what holds them back.
    await user.view("Queues");
    const band = user.rows("Bands").first();
    await poll("the band that is held back", async () =>
      /^0held back[1-9].*saturation .* has reached the ceiling/.test((await band.textContent()) ?? ""),
    );
    expect(user.clicks).toBeLessThanOrEqual(MOST_CLICKS);
    await user.page.screenshot({ path: join(SCREENSHOTS, "bands.png"), fullPage: true });
    await user.page.close();
  });

  it("What did yesterday's change do?", async () => {
    // A mistake shows in every view until it is mended.
    writeFileSync(config, CONFIG.replace("type: queue-scorer", "type: queue-scorr"));
    const user = await NewUser.at(browser, gateway.adminUrl);
    const link = user.page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Configuration" });
    await link.getByText("refused").waitFor();
    writeFileSync(config, CONFIG.replace("weight: 1", "weight: 3"));
    await link.getByText("refused").waitFor({ state: "detached" });
    // Where Prometheus has scraped twice, a span has its first values at the next whole step of 15 s.
    const newest = async (figure: HistoryFigure, name: string): Promise<number | null | undefined> =>
      (await feed<HistoryFeed>(`/history?figure=${figure}&span=1h`)).series
        .find((one) => one.name === name)
        ?.values.at(-1);
    await poll("the requests in Prometheus", async () => ((await newest("requests", "complete")) ?? 0) > 0);
    await poll("the endpoints in Prometheus", async () => (await newest("endpoints", "up")) === 3);

    await user.view("Configuration");
    const reload = user.page.locator(".reloads li").first();
    await reload.getByText("applied").waitFor();
    expect(await reload.locator(".difference").textContent()).toContain("weight: 3");
    await user.view("Overview");
    await user.click(user.page.getByRole("button", { name: "1 h", exact: true }));
    const plot = (title: string): Locator =>
      user.page.locator("figure", { has: user.page.getByRole("heading", { name: title, exact: true }) });
    await plot("Requests by outcome")
      .getByText(/answered.*\d\/s/)
      .waitFor();
    await poll("three endpoints that are up", async () =>
      ((await plot("Endpoints").locator(".legend").textContent()) ?? "").includes("up 3"),
    );
    await plot("TTFT")
      .getByText(/p90 \d/)
      .waitFor();
    // The line in the plots is the change, and the list beside them says which one.
    await user.page.locator(".events li.accent", { hasText: "uses the changed configuration" }).waitFor();
    expect(user.clicks).toBeLessThanOrEqual(MOST_CLICKS);
    await user.page.screenshot({ path: join(SCREENSHOTS, "history.png"), fullPage: true });
    await user.page.close();
  });

  it("What would another configuration do?", async () => {
    // The process keeps the newest 64 full records: no further request may push this one out.
    isOver = true;
    await Promise.all(calls);
    const newest = await poll("a decision", async () => (await feed<DecisionsFeed>("/decisions?limit=1")).rows.at(0));
    const user = await NewUser.at(browser, gateway.adminUrl);
    await user.view("Decisions");
    await user.page.getByLabel("request ID").fill(newest.requestId);
    await user.click(user.rows("Decisions").getByRole("link", { name: newest.requestId, exact: true }));
    await user.click(user.page.getByRole("button", { name: "Replay with another configuration" }));
    await user.page.locator(".outcome").getByText("the pick is the same").waitFor();
    await user.page.getByLabel("weight of queue-scorer in the replay").fill("0");
    await user.page
      .locator(".outcome .sentence")
      .getByText(/The pick stays|would go to/)
      .waitFor();
    expect(user.clicks).toBeLessThanOrEqual(MOST_CLICKS);
    await user.page.close();
  });

  it("Is the backlog going to make it?", async () => {
    const store = cleanup.add(await openStore("SQLite"), (each) => each.close());
    const target = cleanup.add(await new ScriptedGateway().open(), (each) => each.close());
    target.reply = () => ({ after: 100 });
    const dispatching = cleanup.add(
      await Dispatching.start({ transport: store.transport, gateway: target.url, workers: 1 }),
      ({ process }) => process.stop(),
    );
    await dispatching.ready();
    // More than one worker sends while this test runs, and a deadline that is far away.
    const messages = Array.from({ length: 2000 }, (_, n) => ({
      id: `m${n}`,
      deadline: inSeconds(36_000),
      payload: { n },
    }));
    await store.submit(messages);
    const user = await NewUser.at(browser, `http://${dispatching.metricsAddress}`);
    await user.view("Queues");
    const row = user.rows("Queues of messages").first();
    await row.getByText("makes it").waitFor();
    const tile = user.page.locator(".tile", { hasText: "Time left" });
    expect(await tile.textContent()).toMatch(/Time left\d.*until \d\d:\d\d:\d\d/);
    expect(await user.page.locator(".tile", { hasText: "Deadlines" }).textContent()).toContain("met");
    expect(user.clicks).toBeLessThanOrEqual(MOST_CLICKS);
    await user.page.close();
  });
});
