import { describe, expect, it } from "vitest";
import { TestCore, type TestCoreOptions } from "../../../test/support/core.ts";
import { HEADERS, NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { chatBody, SessionHarness } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { defineProducer, defineScorer } from "../../base/plugin/define.ts";
import { attributeKey } from "../../base/plugin/keys.ts";
import type { InferenceExchange } from "./exchange.ts";
import type { Decision, Routed } from "./wire.ts";

const WANTED = attributeKey<string>("wanted");

/** What a test does with the preparation of requests. */
class Oracle {
  readonly asked: InferenceRequest[] = [];
  readonly signals: AbortSignal[] = [];
  readonly answers: ((wanted: string | undefined) => void)[] = [];

  /** A producer that is told which endpoint is wanted, and a scorer that wants that one alone. */
  readonly plugins = [
    defineProducer({
      type: "oracle-producer",
      describe: "Waits for the test.",
      produces: [WANTED],
      create: () => ({
        prepare: (request, signal) =>
          new Promise((resolve) => {
            this.asked.push(request);
            this.signals.push(signal);
            this.answers.push(resolve);
          }),
        produce(context) {
          if (context.prepared !== undefined) context.setAttribute(WANTED, context.prepared as string);
        },
      }),
    }),
    defineScorer({
      type: "oracle-scorer",
      describe: "Prefers what the oracle wants.",
      requires: [WANTED],
      create: () => ({
        score(context) {
          const wanted = context.attribute(WANTED);
          for (const [i, { name }] of context.candidates.endpoints.entries())
            if (i < context.candidates.count) context.out[i] = name === wanted ? 1 : 0;
        },
      }),
    }),
  ];
}

function setUp(options: TestCoreOptions = {}) {
  const oracle = new Oracle();
  return { oracle, core: new TestCore({ ...options, plugins: oracle.plugins }) };
}

/** Sends a whole request; the promise of its decision. */
function ask(core: TestCore, body = chatBody()): { exchange: InferenceExchange; decision: Promise<Decision> } {
  const exchange = core.openExchange(NO_WIRE);
  exchange.requestHeaders(HEADERS, false);
  const decision = exchange.requestBody(Buffer.from(body), true);
  expect(decision).toBeInstanceOf(Promise);
  return { exchange, decision: decision as Promise<Decision> };
}

const routed = async (decision: Promise<Decision>): Promise<Routed> => {
  const result = await decision;
  expect(result).toMatchObject({ kind: "routed" });
  return result as Routed;
};

/** Nothing of a request is left. */
function expectNothingLeft(core: TestCore): void {
  expect([core.inFlight, core.budget.used, core.clock.pending]).toEqual([0, 0, 0]);
}

describe("a request whose producers wait for something", () => {
  it("is decided at once, without a promise or a timer, when none does", () => {
    const core = new TestCore();
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(HEADERS, false);
    expect(exchange.requestBody(Buffer.from(chatBody()), true)).toMatchObject({ kind: "routed" });
    expect(core.clock.pending).toBe(0);
  });

  it("is decided with what they found, on the candidates and the load of that moment", async () => {
    const { core, oracle } = setUp({ endpoints: 2 });
    const { exchange, decision } = ask(core);
    expect(core.inFlight).toBe(0);
    core.add({});
    await core.clock.advanceAsync(300);
    oracle.answers[0]!("pod-3");
    const { endpoints, record } = await routed(decision);
    expect(endpoints[0]!.name).toBe("pod-3");
    expect(record!.candidates).toBe(3);
    expect(core.inFlight).toBe(1);
    exchange.end("client-gone");
    expectNothingLeft(core);
  });

  it("keeps what was found for it, whoever comes in between", async () => {
    const { core, oracle } = setUp();
    const asked = [1, 2, 3].map((n) => ask(core, chatBody(`number ${n}`)));
    const wanted = ["pod-3", "pod-2", undefined];
    const found: unknown[] = [];
    for (const n of [1, 2, 0]) {
      oracle.answers[n]!(wanted[n]);
      const { record } = await routed(asked[n]!.decision);
      // What else the profile scores doesn't matter here.
      found[n] = record!.top.find(({ scores }) => scores.at(-1) === 1)?.id;
    }
    expect(found).toEqual(["default/pod-3", "default/pod-2", undefined]);
  });

  it("is refused by admission as things stand afterwards", async () => {
    const { core, oracle } = setUp({ endpoints: [{ metrics: { waiting: 0 } }], objectives: ["batch=-1"] });
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(
      HeaderList.of([
        [":path", "/v1/chat/completions"],
        ["x-llm-d-inference-objective", "batch"],
      ]),
      false,
    );
    const decision = exchange.requestBody(Buffer.from(chatBody()), true);
    const endpoint = core.endpoint(1);
    endpoint.metrics = { ...endpoint.metrics, waiting: 500 };
    oracle.answers[0]!("pod-1");
    const refused = (await decision) as Rejection;
    expect(refused).toBeInstanceOf(Rejection);
    expect(refused.reason).toBe("saturated");
    expect(core.budget.used).toBe(0);
  });

  it("S-43: is scheduled without them after 400 ms, and the failure is reported", async () => {
    const { core, oracle } = setUp();
    const { decision } = ask(core);
    await core.clock.advanceAsync(400);
    expect((await routed(decision)).endpoints).toHaveLength(3);
    expect(core.errors).toMatchObject([{ code: "PREPARE_TIMEOUT", message: /oracle-producer .* 400 ms/ }]);
    expect(oracle.signals[0]!.aborted).toBe(true);
  });

  it("is not prepared when it is not understood", () => {
    const { core, oracle } = setUp();
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(HEADERS, false);
    expect(exchange.requestBody(Buffer.from("{"), true)).toMatchObject({ reason: "bad_request" });
    expect(oracle.asked).toEqual([]);
  });

  it("has its body as it came, and holds it in the budget", async () => {
    const { core, oracle } = setUp();
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(HEADERS, false);
    const body = chatBody();
    exchange.requestBody(Buffer.from(body.slice(0, 10)), false);
    const decision = exchange.requestBody(Buffer.from(body.slice(10)), true);
    expect(Buffer.from(oracle.asked[0]!.body).toString()).toBe(body);
    expect(core.budget.used).toBe(body.length);
    oracle.answers[0]!("pod-1");
    const { body: forwarded } = await routed(decision as Promise<Decision>);
    expect(Buffer.concat(forwarded).toString()).toBe(body);
  });

  it("takes no second end of its body", async () => {
    const { core, oracle } = setUp();
    const { exchange, decision } = ask(core);
    expect(exchange.requestBody(Buffer.from("more"), true)).toBeUndefined();
    expect(exchange.requestHeaders(HEADERS, true)).toBeUndefined();
    oracle.answers[0]!("pod-1");
    await routed(decision);
    expect(oracle.asked).toHaveLength(1);
    expect(core.inFlight).toBe(1);
    exchange.end("client-gone");
    expectNothingLeft(core);
  });

  it.each(["before", "after"])("whose client goes %s the producers have answered leaves nothing", async (when) => {
    const { core, oracle } = setUp();
    const { exchange, decision } = ask(core);
    // The answer is there, but nobody has looked at it yet.
    if (when === "after") oracle.answers[0]!("pod-1");
    exchange.end("client-gone");
    expect(oracle.signals[0]!.aborted).toBe(true);
    expectNothingLeft(core);
    oracle.answers[0]!("pod-1");
    expect(await decision).toBeInstanceOf(Rejection);
    expectNothingLeft(core);
    expect(core.errors).toEqual([]);
    expect(core.scheduler.records.newest).toBeUndefined();
    expect(core.total("sluice_exchanges_total", { outcome: "client-gone" })).toBe(1);
    expect(core.total("llm_d_epp_request_error_total")).toBe(0);
  });

  it("that somebody else answers meanwhile needs no decision any more", async () => {
    const { core, oracle } = setUp();
    const { exchange, decision } = ask(core);
    exchange.responseHeaders(503, new HeaderList(), false);
    expect(oracle.signals[0]!.aborted).toBe(true);
    expect(await decision).toBeInstanceOf(Rejection);
    exchange.end("complete");
    expectNothingLeft(core);
    expect(core.scheduler.records.newest).toBeUndefined();
  });
});

describe("a session of a proxy whose request waits for producers", () => {
  it("is answered when they have answered", async () => {
    const { core, oracle } = setUp();
    const h = new SessionHarness(core).post(chatBody());
    expect(h.replies).toEqual([]);
    oracle.answers[0]!("pod-2");
    await h.settle();
    expect(h.destination).toBe("10.0.0.2:8000");
    h.answer("{}").reset();
    expect(h.wrongs).toEqual([]);
    expectNothingLeft(core);
  });

  it("that is reset meanwhile tells them, and is answered by nobody", async () => {
    const { core, oracle } = setUp();
    const h = new SessionHarness(core).post(chatBody()).reset();
    expect(oracle.signals[0]!.aborted).toBe(true);
    oracle.answers[0]!("pod-2");
    await h.settle();
    expect(h.replies).toEqual([]);
    expect(h.wrongs).toEqual([]);
    expectNothingLeft(core);
  });
});
