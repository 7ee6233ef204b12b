import { describe, expect, it } from "vitest";
import { TestCore, type TestCoreOptions } from "../../../test/support/core.ts";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { flowSettings } from "../../../test/support/flow-control.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { defineProducer } from "../../base/plugin/define.ts";
import type { FlowChoice, QueuedFlow, ServedTokens } from "../../base/plugin/flow-kinds.ts";
import type { InferenceExchange } from "./exchange.ts";
import type { Decision, SubsetHint } from "./wire.ts";

/** A pool of which the test says how busy it is. */
function setUp(options: TestCoreOptions = {}) {
  const pool = { saturation: 0 };
  const served: { readonly id: string; readonly tokens: ServedTokens }[] = [];
  const settings = flowSettings(() => pool.saturation);
  const only: FlowChoice = {
    ...{ joined: (flow) => flows.push(flow), left: () => flows.pop(), next: () => flows[0]!, served() {} },
    ended: (id, tokens) => served.push({ id, tokens }),
  };
  const flows: QueuedFlow[] = [];
  const fairness = { choice: () => only };
  const template = { ...settings.template, fairness };
  const core = new TestCore({ flowControl: { ...settings, template, negativeTemplate: template }, ...options });
  const free = (): void => {
    pool.saturation = 0;
    core.flowControl!.changed();
    core.clock.advance(0);
  };
  return { core, pool, served, free };
}

function ask(core: TestCore, more: readonly (readonly [string, string])[] = [], subset?: SubsetHint) {
  const exchange = core.openExchange(NO_WIRE);
  exchange.requestHeaders(
    HeaderList.of([[":method", "POST"], [":path", "/v1/chat/completions"], ...more]),
    false,
    subset,
  );
  const decision = exchange.requestBody(Buffer.from(chatBody()), true);
  return { exchange, decision: decision as Decision | Promise<Decision> };
}

function answer(exchange: InferenceExchange): void {
  const body = JSON.stringify({ usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 } });
  exchange.responseHeaders(200, HeaderList.of([["content-type", "application/json"]]), false);
  exchange.responseBody(Buffer.from(body), true);
}

/** Nothing of any request is left. */
function expectNothingLeft(core: TestCore): void {
  const { requests, bytes, undecided } = core.flowControl!;
  expect([requests, bytes, undecided, core.inFlight, core.budget.used]).toEqual([0, 0, 0, 0, 0]);
}

describe("a request in flow control", () => {
  it("goes on at once, without a promise or a timer, where the pool has room", () => {
    const { core } = setUp();
    const { exchange, decision } = ask(core);
    expect(decision).toMatchObject({ kind: "routed" });
    expect([core.inFlight, core.clock.pending]).toEqual([1, 0]);
    expect(core.scheduler.records.newest!.queued).toBeUndefined();
    exchange.end("client-gone");
    expectNothingLeft(core);
  });

  it("waits for room, and goes to an endpoint that came meanwhile (S-78: late binding)", async () => {
    const { core, pool, free } = setUp({ endpoints: 1 });
    pool.saturation = 1;
    const { exchange, decision } = ask(core);
    expect(decision).toBeInstanceOf(Promise);
    expect(core.flowControl!.requests).toBe(1);
    core.endpoints.remove("default/pod-1");
    core.add({ address: "10.0.0.9" });
    free();
    expect(core.inFlight).toBe(1);
    expect(await decision).toMatchObject({ endpoints: [{ address: "10.0.0.9" }] });
    expect(core.scheduler.records.newest!.queued).toMatchObject({
      saturation: 0,
      ceiling: 1,
      fairnessId: "default-flow",
    });
    exchange.end("client-gone");
    expectNothingLeft(core);
  });

  it("counts at its endpoint before the next one leaves the queue", async () => {
    const { core, pool } = setUp();
    pool.saturation = 1;
    const asked = [ask(core), ask(core), ask(core)];
    const detector = { saturation: () => core.inFlight / 2 };
    core.flowControl!.configure({ ...flowSettings(() => 0), detector });
    core.clock.advance(0);
    expect([core.inFlight, core.flowControl!.requests]).toEqual([2, 1]);
    await asked[0]!.decision;
    asked[0]!.exchange.end("client-gone");
    core.clock.advance(0);
    expect([core.inFlight, core.flowControl!.requests]).toEqual([2, 0]);
  });

  it("is refused when its time is over, with its record and its reason (S-78)", async () => {
    const { core, pool } = setUp();
    pool.saturation = 1;
    const { exchange, decision } = ask(core);
    core.clock.advance(60_000);
    expect(await decision).toMatchObject({ status: 429, reason: "ttl_expired" });
    const queued = { band: 0, behind: 0, waitedMs: 60_000, saturation: Number.NaN };
    expect(core.scheduler.records.newest).toMatchObject({ refusal: { reason: "ttl_expired" }, queued });
    exchange.end("rejected");
    expectNothingLeft(core);
    expect(core.total("llm_d_epp_request_error_total", { error_code: "ResourceExhausted" })).toBe(1);
  });

  it("frees its place at once when its client leaves (S-79)", async () => {
    const { core, pool, free } = setUp();
    pool.saturation = 1;
    const { exchange, decision } = ask(core);
    exchange.end("client-gone");
    expectNothingLeft(core);
    free();
    expect(await decision).toMatchObject({ reason: "internal" });
    expect(core.inFlight).toBe(0);
  });

  it("does not wait where the hint of the proxy allows no endpoint of the pool (E-58a), but in an empty pool", async () => {
    const stranger = [{ address: "10.9.9.9", port: undefined }];
    const { core } = setUp();
    expect(ask(core, [], stranger).decision).toMatchObject({ status: 503, reason: "no_endpoints" });
    const empty = setUp({ endpoints: 0 });
    const { decision } = ask(empty.core, [], stranger);
    expect(decision).toBeInstanceOf(Promise);
    empty.core.clock.advance(60_000);
    expect(await decision).toMatchObject({ status: 503, reason: "no_endpoints" });
  });

  it("is not shed by the sign of its priority (scheduling 5.5)", () => {
    const { core, pool } = setUp({ objectives: ["batch=-1"] });
    pool.saturation = 0.9;
    expect(ask(core, [["x-llm-d-inference-objective", "batch"]]).decision).toMatchObject({ kind: "routed" });
  });

  it("reports its tokens to the fairness policy, once, under the fairness ID of the request", () => {
    const { core, served } = setUp();
    const { exchange } = ask(core, [["x-llm-d-inference-fairness-id", "team-a"]]);
    answer(exchange);
    exchange.end("complete");
    expect(served).toMatchObject([{ id: "team-a", tokens: { promptTokens: 7, completionTokens: 3 } }]);
    const silent = ask(core);
    silent.exchange.end("client-gone");
    expect(served[1]).toEqual({
      id: "default-flow",
      tokens: { promptTokens: Number.NaN, completionTokens: Number.NaN },
    });
    expectNothingLeft(core);
  });

  it("waits in the flow that a header processor names", () => {
    const { core, served } = setUp({
      config: `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: agent-identity
- type: random-picker
schedulingProfiles:
- name: default
  plugins: [{pluginRef: random-picker}]
`,
    });
    ask(core, [["x-claude-code-session-id", "agent-7"]]).exchange.end("client-gone");
    expect(served).toMatchObject([{ id: "agent-7" }]);
  });

  it("counts as dispatched until its producers have prepared", async () => {
    const ready: (() => void)[] = [];
    const slow = defineProducer({
      type: "slow-producer",
      describe: "Waits for the test.",
      create: () => ({
        prepare: () => new Promise<undefined>((resolve) => ready.push(() => resolve(undefined))),
        produce() {},
      }),
    });
    const { core } = setUp({ plugins: [slow] });
    const { exchange, decision } = ask(core);
    expect([core.flowControl!.requests, core.flowControl!.undecided, core.inFlight]).toEqual([0, 1, 0]);
    ready[0]!();
    expect(await decision).toMatchObject({ kind: "routed" });
    expect([core.flowControl!.undecided, core.inFlight]).toEqual([0, 1]);
    exchange.end("client-gone");
    const gone = ask(core);
    gone.exchange.end("client-gone");
    expect(core.flowControl!.undecided).toBe(0);
    expectNothingLeft(core);
  });
});
