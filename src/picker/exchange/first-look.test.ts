import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { HEADERS, NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { ASK_TIMEOUT, MAX_ASKING, ModelAsker } from "../../pool/endpoints/model-asker.ts";
import type { ModelAnswer } from "../../pool/endpoints/model-client.ts";
import { modelsIn, type ServedModels } from "../../pool/endpoints/served-models.ts";
import { FirstLook } from "./first-look.ts";
import type { Decision } from "./wire.ts";

const listing = (...names: readonly string[]): ModelAnswer => ({
  kind: "listed",
  models: modelsIn(JSON.stringify({ data: names.map((id) => ({ id })) })) as ServedModels,
});

/** Endpoints `pod-1`, `pod-2`, ... whose servers answer the question for their models when the test says so. */
function setUp(endpoints: number) {
  const core = new TestCore({ endpoints, retries: true });
  const open = new Map<string, (answer: ModelAnswer) => void>();
  const asker = new ModelAsker({
    ...{ clock: core.clock, registry: core.endpoints, random: new SeededRandom(2) },
    ask({ name }, done) {
      open.set(name, done);
      return { cancel: () => open.delete(name) };
    },
    onProblem() {},
  });
  const answer = (name: string, given: ModelAnswer): void => open.get(name)!(given);
  const endpoint = (name: string) => core.endpoints.list().find((each) => each.name === name)!;
  return { core, asker, answer, endpoint };
}

/** Sends a request. `decided()` = where it went, or the reason of its refusal; undefined while it waits. */
function ask(core: TestCore, model: string) {
  const exchange = core.openExchange(NO_WIRE);
  exchange.requestHeaders(HEADERS, false);
  const body = Buffer.from(JSON.stringify({ model, messages: [{ role: "user", content: "hello" }] }));
  let told: string | undefined;
  const tell = (decision: Decision): void => {
    told = "endpoints" in decision ? decision.endpoints.map(({ name }) => name).join() : decision.reason;
  };
  const decision = exchange.requestBody(body, true);
  if (decision instanceof Promise) void decision.then(tell);
  else if (decision !== undefined) tell(decision);
  return { exchange, decided: () => told };
}

describe("a request before its model is known", () => {
  it("waits until a server lists the model, and goes to this server alone", async () => {
    const { core, answer } = setUp(3);
    const { decided } = ask(core, "sql");
    await core.clock.advanceAsync(100);
    expect(decided()).toBeUndefined();
    answer("pod-1", listing("base"));
    await core.clock.advanceAsync(100);
    expect(decided()).toBeUndefined();
    answer("pod-2", listing("base", "sql"));
    await core.clock.advanceAsync(0);
    expect(decided()).toBe("pod-2");
    // The model is known now, so nothing waits for the last server, which may lack it.
    expect([ask(core, "sql").decided(), core.inFlight]).toEqual(["pod-2", 2]);
  });

  it("is told that there is no such model only when every server has listed its models", async () => {
    const { core, answer } = setUp(2);
    const { decided } = ask(core, "nobody");
    answer("pod-1", listing("base"));
    await core.clock.advanceAsync(100);
    expect(decided()).toBeUndefined();
    answer("pod-2", listing("base"));
    await core.clock.advanceAsync(0);
    expect(decided()).toBe("model_not_found");
  });

  it("waits no longer than one question may take, however many servers are silent", async () => {
    const { core } = setUp(MAX_ASKING + 3);
    const { decided } = ask(core, "base");
    await core.clock.advanceAsync(ASK_TIMEOUT - 1);
    expect(decided()).toBeUndefined();
    await core.clock.advanceAsync(1);
    expect(decided()).toMatch(/^pod-/);
    expect(core.endpoints.awaited).toBe(0);
  });

  it("does not wait for servers that are down, gone, or answer without a list", async () => {
    const { core, answer, endpoint } = setUp(3);
    const { decided } = ask(core, "base");
    core.endpoints.attemptFailed(endpoint("pod-1"), "connect", "refused");
    core.endpoints.remove(endpoint("pod-2").id);
    await core.clock.advanceAsync(0);
    expect(decided()).toBeUndefined();
    answer("pod-3", { kind: "unusable", problem: "HTTP 401" });
    await core.clock.advanceAsync(0);
    expect(decided()).toBe("pod-3");
  });

  it("a server that answers without a list ends no wait while another one may list the model", async () => {
    const { core, answer } = setUp(2);
    const { decided } = ask(core, "sql");
    answer("pod-1", { kind: "silent" });
    await core.clock.advanceAsync(0);
    expect(decided()).toBeUndefined();
    answer("pod-2", listing("sql"));
    await core.clock.advanceAsync(0);
    expect(decided()!.split(",")).toContain("pod-2");
  });

  it("waits for a server that is new, or back from being down with unknown models, and for no later question", async () => {
    const { core, answer, endpoint } = setUp(1);
    answer("pod-1", listing("base"));
    core.add({});
    const first = ask(core, "sql");
    expect([ask(core, "base").decided(), first.decided()]).toEqual(["pod-1", undefined]);
    core.endpoints.attemptFailed(endpoint("pod-2"), "connect", "refused");
    await core.clock.advanceAsync(0);
    expect(first.decided()).toBe("pod-2");
    core.endpoints.attemptSucceeded(endpoint("pod-2"));
    const second = ask(core, "sql");
    expect(second.decided()).toBeUndefined();
    answer("pod-2", { kind: "unusable", problem: "HTTP 401" });
    await core.clock.advanceAsync(60_000);
    expect([second.decided(), ask(core, "sql").decided()]).toEqual(["pod-2", "pod-2"]);
  });

  it("is forgotten when its client leaves, and decided when nobody asks any more", async () => {
    const { core, asker } = setUp(1);
    const [gone, stays] = [ask(core, "a"), ask(core, "b")];
    gone.exchange.end("client-gone");
    await core.clock.advanceAsync(0);
    expect([gone.decided(), stays.decided()]).toEqual([expect.anything(), undefined]);
    asker.close();
    await core.clock.advanceAsync(0);
    expect(stays.decided()).toBe("pod-1");
    expect(core.inFlight).toBe(1);
  });

  it("is decided at once where too many wait", () => {
    const { core } = setUp(1);
    const look = new FirstLook(core.endpoints, 2);
    const begin = () =>
      look.before(
        "m",
        () => true,
        () => undefined,
      );
    const held = [begin(), begin()];
    expect([begin(), look.waiting]).toEqual([undefined, 2]);
    held[0]!.abort();
    expect([begin() !== undefined, look.waiting]).toEqual([true, 2]);
  });
});
