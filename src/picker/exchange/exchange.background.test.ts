import { describe, expect, it } from "vitest";
import { TestCore, type TestCoreOptions } from "../../../test/support/core.ts";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { Decision } from "./wire.ts";

const BATCH: Caller = {
  ...{ id: "1", name: "batch", models: undefined, objective: undefined, priority: -1 },
  ...{ fairnessId: undefined, choosesFlow: false, background: true },
};

/** Endpoints that run so many requests each at once, as their metrics have shown. */
function setUp(size: number, options: TestCoreOptions = {}) {
  const core = new TestCore({ endpoints: 1, baseline: 0.2, ...options });
  const scrape = (running: number, waiting = 0): void => {
    for (const endpoint of core.endpoints.list()) {
      endpoint.metrics = { ...endpoint.metrics, running, waiting, kvUsage: 0, scrapedAt: core.clock.now() };
      core.spareRoom!.scraped(endpoint);
    }
  };
  for (const [running, waiting] of [[size], [size, 1], [0], [0]] as const) scrape(running, waiting);
  const ask = (caller?: Caller) => {
    const evicted: Rejection[] = [];
    const wire = { ...NO_WIRE, caller, evict: (rejection: Rejection) => evicted.push(rejection) };
    const exchange = core.openExchange(wire);
    exchange.requestHeaders(
      HeaderList.of([
        [":method", "POST"],
        [":path", "/v1/chat/completions"],
      ]),
      false,
    );
    const decision = exchange.requestBody(Buffer.from(chatBody()), true) as Decision | Promise<Decision>;
    return { exchange, decision, evicted };
  };
  return { core, scrape, ask, line: () => ask(BATCH) };
}

describe("a background request", () => {
  it("waits while the others leave no room above the baseline, and goes on when one ends", async () => {
    const { core, ask, line } = setUp(5);
    const live = [ask(), ask(), ask()];
    expect(line().decision).toMatchObject({ kind: "routed" });
    const waiting = line();
    expect(waiting.decision).toBeInstanceOf(Promise);
    expect([core.inFlight, core.spareRoom!.waiting]).toEqual([4, 1]);
    // Other requests never wait.
    expect(ask().decision).toMatchObject({ kind: "routed" });
    live[0]!.exchange.end("client-gone");
    live[1]!.exchange.end("client-gone");
    core.clock.advance(1);
    expect(await waiting.decision).toMatchObject({ kind: "routed" });
  });

  it("ends when another request takes the last slot, and gives its own back", () => {
    const { core, ask, line } = setUp(5);
    const lines = [line(), line(), line(), line()];
    ask();
    expect(lines.map(({ evicted }) => evicted.map(({ reason }) => reason))).toEqual([[], [], [], ["evicted"]]);
    lines[3]!.exchange.end("client-gone");
    expect(core.inFlight).toBe(4);
    ask();
    expect(lines[2]!.evicted).toHaveLength(1);
  });

  it("goes on no more once its client has left, and leaves nothing behind", async () => {
    const { core, line } = setUp(1);
    const first = line();
    const second = line();
    second.exchange.end("client-gone");
    first.exchange.end("client-gone");
    core.clock.advance(1);
    expect([core.inFlight, core.spareRoom!.waiting, core.budget.used, core.clock.pending]).toEqual([0, 0, 0, 0]);
    expect(line().decision).toMatchObject({ kind: "routed" });
  });

  it("is refused, so that its sender tries again, where it found no room for a minute", async () => {
    const { core, ask, line } = setUp(2);
    ask();
    ask();
    const { decision, exchange } = line();
    core.clock.advance(60_000);
    expect(await decision).toMatchObject({ reason: "evicted_priority", status: 429 });
    exchange.end("complete");
    expect(core.inFlight).toBe(2);
  });

  it("moves with its attempts, so that it ends for requests at the endpoint that has it", () => {
    const { core, line, ask } = setUp(2, { endpoints: 2, retries: true });
    const { decision, exchange, evicted } = line();
    const { endpoints } = decision as Extract<Decision, { kind: "routed" }>;
    const [first] = endpoints;
    const second = exchange.attemptFailed(first!, "connect", "refused");
    expect(second).not.toBe(first);
    // The other endpoint takes all requests from now on.
    core.endpoints.remove(`default/${first!.name}`);
    ask();
    expect(evicted).toHaveLength(1);
  });
});
