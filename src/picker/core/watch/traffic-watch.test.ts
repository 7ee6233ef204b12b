import { beforeEach, expect, it } from "vitest";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { HeaderList } from "../../../base/inference/headers.ts";
import { silentLogger } from "../../../base/telemetry/logger.ts";
import { objectivesFromFlags } from "../../../pool/resources/objectives.ts";
import { loadConfig } from "../../config/load.ts";
import type { Exchange } from "../../exchange/wire.ts";
import { InferenceCore } from "../inference-core.ts";
import { PLUGIN_REGISTRY } from "../plugins/plugins.ts";
import { STEPS } from "./endpoint-watch.ts";
import { HISTOGRAM, SUM } from "./traffic-watch.ts";

let clock: VirtualClock;
let core: InferenceCore;

beforeEach(() => {
  clock = new VirtualClock();
  core = new InferenceCore({
    ...{ clock, random: new SeededRandom(1), config: loadConfig(undefined, PLUGIN_REGISTRY) },
    models: { objectives: objectivesFromFlags([]) },
    ...{ staleness: 2000, ignoreSubset: false, retries: true, log: silentLogger },
  });
  for (const name of ["a", "b"])
    core.endpoints.upsert({
      namespace: "n",
      name,
      address: `10.0.0.${name === "a" ? 1 : 2}`,
      port: 1,
      rank: 0,
      labels: {},
    });
});

/** Sends a request and leaves it at its decision. */
function open(name?: string): Exchange {
  const caller = name === undefined ? undefined : ({ name, priority: undefined, models: undefined } as never);
  const exchange = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {}, caller });
  exchange.requestHeaders(HeaderList.of([[":path", "/v1/completions"]]), false);
  exchange.requestBody(Buffer.from('{"model":"m","prompt":"x","stream":true}'), true);
  return exchange;
}

const EVENTS = HeaderList.of([["content-type", "text/event-stream"]]);
const USAGE = `data: {"usage":{"prompt_tokens":12,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}}\n\n`;

/** The answer: the first byte after 100 ms, the end 300 ms later. */
function answer(exchange: Exchange, status = 200): void {
  clock.advance(100);
  exchange.responseHeaders(status, EVENTS, false);
  exchange.responseBody(Buffer.from('data: {"choices":[]}\n\n'), false);
  clock.advance(300);
  exchange.responseBody(Buffer.from(`${USAGE}data: [DONE]\n\n`), true);
}

it("follows a request from its decision to its end", () => {
  const exchange = open("team-a");
  const running = core.watch.journeys.of(1)!;
  expect(running).toMatchObject({ sequence: 1, caller: "team-a", outcome: undefined, streaming: true });
  answer(exchange);
  const ended = core.watch.journeys.of(1)!;
  expect(ended).toMatchObject({ outcome: "answered", status: 200, promptTokens: 12, outputTokens: 4, cachedTokens: 8 });
  expect(ended.firstByteAt - ended.receivedAt).toBe(100);
  expect(ended.endedAt - ended.receivedAt).toBe(400);
  const { ring, totals, tokens, routed } = core.watch;
  const second = ring.newest;
  expect([totals[0], routed, tokens]).toEqual([1, 1, { prompt: 12, output: 4, cached: 8 }]);
  expect(ring.sum(second, SUM.output)).toBe(4);
  expect(ring.quantile(second, HISTOGRAM.ttft, 0.5)).toBeGreaterThan(90);
  expect(ring.quantile(second, HISTOGRAM.ttft, 0.5)).toBeLessThan(110);
  const history = core.watch.endpoints.of(core.endpoints.get(ended.endpoint)!)!;
  expect([history.requests, history.failures]).toEqual([1, 0]);
  expect(history.recent(second)).toMatchObject({ routed: 1, ttftMs: 100, tpotMs: 100 });
});

it("counts each outcome with its cause, and equals the counter of exchanges", () => {
  answer(open());
  answer(open(), 500);
  open().end("client-gone");
  open().end("interrupted");
  const refused = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
  refused.requestHeaders(HeaderList.of([[":path", "/v1/completions"]]), false);
  refused.requestBody(Buffer.from("{"), true);
  refused.end("rejected");
  open().end("no-response-phase");
  core.watch.unopened("key_missing", false);
  core.watch.unopened("internal", true);
  //                                       answered, server-error, refused, cancelled, interrupted, unfollowed, failed
  expect([...core.watch.totals]).toEqual([1, 1, 2, 1, 1, 1, 1]);
  expect(core.watch.causes.map(({ outcome, cause }) => `${outcome} ${cause}`)).toEqual([
    ...["server-error status 500", "cancelled client-gone", "interrupted interrupted", "refused bad_request"],
    ...["refused key_missing", "failed internal"],
  ]);
  const { exchangesTotal } = core.metrics;
  expect(exchangesTotal.with("complete").value).toBe(2);
  expect(exchangesTotal.with("rejected").value).toBe(1);
});

it("keeps the attempts of a request, and counts failures where they happened", () => {
  const exchange = open();
  const first = core.endpoints.get(core.watch.journeys.of(1)!.endpoint)!;
  const next = exchange.attemptFailed(first, "connect", "ECONNREFUSED");
  answer(exchange);
  expect(core.watch.journeys.of(1)!.attempts).toMatchObject([
    { endpoint: first.id, failure: "connect: ECONNREFUSED" },
    { endpoint: (next as { id: string }).id, failure: undefined },
  ]);
  expect(core.watch.endpoints.of(first)!.failures).toBe(1);
  expect(core.watch.ring.sum(core.watch.ring.newest, SUM.retries)).toBe(1);
});

it("bounds causes, journeys and histories", () => {
  for (let n = 0; n < 1000; n++) core.watch.unopened(`reason_${n}`, false);
  expect(core.watch.causes).toHaveLength(64);
  expect(core.watch.causes.at(-1)).toEqual({ outcome: "failed", cause: "other" });
  const { ring } = core.watch;
  let all = 0;
  for (let place = 0; place < 64; place++) all += ring.counted(ring.newest, place);
  expect(all).toBe(1000);
  for (let n = 0; n < 4097; n++) open().end("client-gone");
  expect(core.watch.journeys.of(1)).toBeUndefined();
  expect(core.watch.journeys.of(4097)).toMatchObject({ outcome: "cancelled" });
  const before = core.watch.bytes;
  for (let n = 0; n < 3000; n++)
    core.endpoints.upsert({ namespace: "n", name: `e${n}`, address: "10.1.0.1", port: n + 1, rank: 0, labels: {} });
  expect(core.watch.bytes - before).toBeLessThan(2048 * 3000);
});

it("follows a wall clock that jumps ahead, and never one that falls", () => {
  const before = core.watch.second();
  clock.set(-5_000_000);
  core.watch.align();
  expect(core.watch.second()).toBe(before);
  clock.set(8_600_000);
  core.watch.align();
  expect(core.watch.second()).toBe(Math.floor(clock.wall() / 1000));
  answer(open());
  expect(core.watch.ring.newest).toBe(core.watch.second());
});

it("forgets the history of an endpoint that leaves, and its events stay", () => {
  const endpoint = core.endpoints.get("n/a")!;
  const history = core.watch.endpoints.of(endpoint)!;
  expect(history.changes).toMatchObject([{ state: "up" }]);
  core.endpoints.remove("n/a");
  expect(core.watch.endpoints.of(endpoint)).toBeUndefined();
  expect(core.watch.events.after(0).events.map(({ kind, subject }) => `${kind} ${subject}`)).toEqual([
    ...["endpoint-added n/a", "endpoint-added n/b", "endpoint-removed n/a"],
  ]);
});

it("keeps 15 minutes of each endpoint in steps, and forgets older ones", () => {
  const endpoint = core.endpoints.get("n/a")!;
  const history = core.watch.endpoints.of(endpoint)!;
  history.routed();
  history.ended(30, 50, 10);
  const first = core.watch.second();
  core.watch.endpoints.advance(first + 15);
  const steps = history.steps();
  expect(steps).toHaveLength(STEPS - 1);
  expect(steps.at(-1)).toMatchObject({ requestsPerSecond: 1 / 15, tokensPerSecond: 2 });
  expect(steps[0]!.requestsPerSecond).toBeNaN();
  core.watch.endpoints.advance(first + 15 * (STEPS + 2));
  expect(history.steps().every(({ tokensPerSecond }) => !(tokensPerSecond > 0))).toBe(true);
  expect(history.recent(first + 15 * (STEPS + 2)).routed).toBe(0);
});
