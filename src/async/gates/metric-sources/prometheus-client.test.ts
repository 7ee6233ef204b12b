import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakePrometheus } from "../../../../test/support/fake-prometheus.ts";
import { deadPort } from "../../../../test/support/loopback.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { type LogFields, type Logger, silentLogger } from "../../../base/telemetry/logger.ts";
import { PrometheusFigure } from "./prometheus.ts";
import { PrometheusClient } from "./prometheus-client.ts";

const EPOCH = 1_800_000_000_000;
const NEVER = new AbortController().signal;

let clock: VirtualClock;
let fake: FakePrometheus;
let client: PrometheusClient;

beforeEach(async () => {
  clock = new VirtualClock(EPOCH);
  fake = await FakePrometheus.start(clock);
  client = new PrometheusClient(fake.url, clock, silentLogger);
});

afterEach(async () => {
  await client.close();
  await fake.close();
});

const body = (text: string, status = 200) => ({ body: text, status });
const success = (data: unknown) => body(JSON.stringify({ status: "success", data }));

describe("instant queries", () => {
  it("sends the expression as it is, by POST, below the path of the URL, with its user", async () => {
    fake.reply = () => [0.5, 0.25];
    const url = `${fake.url.replace("//", "//me:p%40ss@")}/prefix/?tenant=a`;
    const other = new PrometheusClient(url, clock, silentLogger);
    const query = '1 - up{a="ä&b=c"} / on() (x * 100)';
    const answer = await other.query(query, NEVER);
    await other.close();
    expect(answer.samples.map(({ value }) => value)).toEqual([0.5, 0.25]);
    expect(answer.evaluatedAt).toBe(EPOCH);
    const [question] = fake.questions;
    expect(question).toMatchObject({ method: "POST", path: "/prefix/api/v1/query", query });
    expect(question?.headers.authorization).toBe(`Basic ${Buffer.from("me:p@ss").toString("base64")}`);
  });

  it("asks by GET from then on when POST is not allowed", async () => {
    let refused = 0;
    fake.reply = () => (fake.questions.at(-1)?.method === "POST" && ++refused > 0 ? body("", 405) : [1]);
    expect((await client.query("up + 1", NEVER)).samples).toHaveLength(1);
    expect((await client.query("up + 1", NEVER)).samples).toHaveLength(1);
    expect(fake.questions.map(({ method, query }) => `${method} ${query}`)).toEqual([
      "POST up + 1",
      "GET up + 1",
      "GET up + 1",
    ]);
  });

  it.each([
    [success({ resultType: "scalar", result: [1, "1"] }), /the answer is a scalar, not a vector/],
    [success({ resultType: "vector", result: [{ metric: {}, histogram: [1, {}] }] }), /not a single number/],
    [success({ resultType: "vector", result: [{ metric: {}, value: [1, "one"] }] }), /cannot be read/],
    [success({ resultType: "vector" }), /no list of samples/],
    [body('{"status":"error","error":"multiple matches for labels"}', 422), /HTTP 422: multiple matches for labels/],
    [body("oh no", 500), /HTTP 500: the answer is not JSON/],
    [body("", 200), /not JSON/],
    [body("null"), /does not report success/],
    [{ ...body("", 302), headers: { location: "http://127.0.0.1:1/" } }, /HTTP 302/],
    [body(`{"status":"success","data":"${"x".repeat(5 << 20)}"}`), /more than 4194304 bytes/],
    ["cut" as const, /127\.0\.0\.1:\d+\/: ./],
  ])("an unusable answer is one error that says why (A-7) %#", async (reply, problem) => {
    fake.reply = () => reply;
    const failure = client.query("up", NEVER);
    await expect(failure).rejects.toMatchObject({ code: "METRIC_SOURCE", message: expect.stringMatching(problem) });
    fake.reply = () => [1];
    expect((await client.query("up", NEVER)).samples).toHaveLength(1);
  });

  it("a server that is not there is an error, and so is an unusable URL; neither shows the password", async () => {
    const gone = new PrometheusClient(`http://me:secret@127.0.0.1:${await deadPort()}`, clock, silentLogger);
    const failure = await gone.query("up", NEVER).catch((error: Error) => error.message);
    expect(failure).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/: .*ECONNREFUSED/);
    expect(failure).not.toContain("secret");
    await gone.close();
    for (const url of ["prometheus:9090", "ftp://x", "", "http://"])
      expect(() => new PrometheusClient(url, clock, silentLogger)).toThrow(/must begin with http:\/\/ or https:\/\//);
  });

  it("NaN and infinities are values", async () => {
    fake.reply = () => [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    const { samples } = await client.query("up", NEVER);
    expect(samples.map(({ value }) => value)).toEqual([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]);
  });

  it("warnings are logged once a minute per query", async () => {
    const lines: LogFields[] = [];
    const log: Logger = { ...silentLogger, warn: (fields) => void lines.push(fields) };
    const warned = new PrometheusClient(fake.url, clock, log);
    const data = { resultType: "vector", result: [] };
    fake.reply = () => body(JSON.stringify({ status: "success", data, warnings: ["partial\nresult"] }));
    for (let i = 0; i < 5; i++) await warned.query("up", NEVER);
    clock.advance(60_000);
    await warned.query("up", NEVER);
    await warned.close();
    expect(lines).toEqual([
      { query: "up", warnings: ["partial result"] },
      { query: "up", warnings: ["partial result"], suppressed: 4 },
    ]);
  });

  it("ends with the reason of its signal", async () => {
    fake.reply = () => "hang";
    const controller = new AbortController();
    const asked = client.query("up", controller.signal);
    controller.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
  });
});

describe("the time of samples", () => {
  const figure = (timestampQuery: string | undefined) =>
    new PrometheusFigure(client, { query: "up", timestampQuery, metricLag: 15_000 });
  const time = async (of = figure("min(timestamp(up))")) => (await of.ask(NEVER)).time - clock.wall();

  beforeEach(() => {
    fake.reply = () => [1];
  });

  it("is their own, asked before the value", async () => {
    fake.sampleAge = 7000;
    expect(await time()).toBe(-7000);
    expect(fake.questions.map(({ query }) => query)).toEqual(["min(timestamp(up))", "up"]);
  });

  it.each([-3_600_000, 3_600_000])("does not depend on the server's clock being %d ms off", async (ahead) => {
    fake.ahead = ahead;
    fake.sampleAge = 7000;
    expect(await time()).toBe(-7000);
    expect(await time(figure(undefined))).toBe(-15_000);
  });

  it("is the evaluation's minus metric_lag without a usable one", async () => {
    expect(await time(figure(undefined))).toBe(-15_000);
    fake.sampleAge = undefined;
    expect(await time()).toBe(-15_000);
    // Servers of tests that give the same number to every question.
    fake.sampleAge = clock.wall() - 700;
    expect(await time()).toBe(-15_000);
    fake.sampleAge = Number.NaN;
    expect(await time()).toBe(-15_000);
  });

  it("is old when the answer itself is", async () => {
    fake.stale = 600_000;
    expect(await time(figure(undefined))).toBeLessThanOrEqual(-600_000);
    expect(await time()).toBeLessThanOrEqual(-600_000);
    fake.date = false;
    expect(await time(figure(undefined))).toBe(-615_000);
  });

  it("stays the same for the same sample, however long a question takes", async () => {
    const asked = figure("min(timestamp(up))");
    const sampledAt = clock.wall();
    const first = (await asked.ask(NEVER)).time;
    clock.advance(5000);
    fake.arrived = () => {
      clock.advance(40);
      fake.sampleAge = clock.wall() - sampledAt;
    };
    expect((await asked.ask(NEVER)).time).toBe(first);
    // Another sample that takes as long counts as older than it is by that, never as newer.
    fake.arrived = () => {
      clock.advance(40);
      fake.sampleAge = 100;
    };
    const before = clock.wall();
    expect((await asked.ask(NEVER)).time).toBe(before - 100);
  });
});
