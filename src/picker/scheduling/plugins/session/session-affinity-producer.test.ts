import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../../../base/clock/virtual.ts";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { HeaderList } from "../../../../base/inference/headers.ts";
import { SESSION_BOUND, SESSION_ID } from "../../../../base/plugin/keys.ts";
import type { PluginContext } from "../../../../base/plugin/kinds.ts";
import { agentIdentity } from "./agent-identity.ts";
import { MAX_SESSION_ID, sessionAffinityReferences } from "./session-affinity-parameters.ts";
import { MAX_SESSIONS, SessionTable, sessionAffinityProducer } from "./session-affinity-producer.ts";
import { encodeSessionToken } from "./session-token-hook.ts";

const [A, B, C] = [endpointOf(0), endpointOf(1), endpointOf(2)];

/** A producer with what a test asks of it. */
function affinity(parameters: object, fake: Partial<PluginContext> = {}) {
  const clock = new VirtualClock();
  const producer = instanceOf(sessionAffinityProducer, parameters, { clock, ...fake });
  let last = requestOf("");
  const bound = (
    headers: Readonly<Record<string, string>>,
    endpoints: readonly Endpoint[] = [A, B, C],
    session?: string,
  ) => {
    last = requestOf("hello", { headers: HeaderList.of(Object.entries(headers)) });
    const candidates = columnsOf(endpoints, [
      [SESSION_BOUND, []],
      [SESSION_ID, session],
    ]);
    producer.produce(produceContextOf(candidates, last));
    return endpoints.filter((_, i) => candidates.column(SESSION_BOUND)[i] === 1).map(({ slot }) => slot);
  };
  return {
    clock,
    producer,
    /** Slots of the candidates that the request's session is bound to. */
    bound,
    /** The same, and the request goes to `to`, or in the end to `served`. */
    route(headers: Readonly<Record<string, string>>, to: Endpoint, endpoints?: readonly Endpoint[], served?: Endpoint) {
      const slots = bound(headers, endpoints);
      const moved = producer.follow?.(last);
      producer.routed?.(last, to, new Map(), "default");
      if (served !== undefined) moved?.(served);
      return slots;
    },
    /** The request goes to `to` by the profile `decode`, other profiles chose `others`, and in the end `served` answers. */
    split(headers: Readonly<Record<string, string>>, to: Endpoint, others: object, served?: Endpoint) {
      bound(headers);
      const moved = producer.follow?.(last);
      producer.routed?.(last, to, new Map(Object.entries(others)), "decode");
      if (served !== undefined) moved?.(served);
    },
  };
}

describe("session-affinity-producer by token", () => {
  it("S-46: marks the endpoint whose id the header holds, wherever it stands, and nobody once it is gone", () => {
    const { bound } = affinity({});
    const headers = { "x-session-token": encodeSessionToken(B.id) };
    expect(bound(headers)).toEqual([1]);
    expect(bound(headers, [B, A])).toEqual([1]);
    expect(bound(headers, [A, C])).toEqual([]);
  });

  it("S-46: a missing, blank or invalid token binds to no endpoint", () => {
    const { bound } = affinity({});
    for (const token of ["", "  ", "default/pod-1", "%%%", encodeSessionToken("default/pod-9"), "A".repeat(5000)])
      expect(bound({ "x-session-token": token })).toEqual([]);
    expect(bound({})).toEqual([]);
  });

  it("reads the configured header, in any case of letters", () => {
    const { bound } = affinity({ encodedEndpointHeaderConfig: { header: "X-Sticky" } });
    expect(bound({ "x-sticky": encodeSessionToken(C.id) })).toEqual([2]);
    expect(bound({ "x-session-token": encodeSessionToken(C.id) })).toEqual([]);
  });
});

describe("session-affinity-producer by session id", () => {
  const byId = (config: object = {}) => affinity({ strategy: "session_id", sessionIdConfig: config });
  const ONE = { "x-session-id": "one" };

  it("S-46: binds a session to where its first request went; sessions are apart", () => {
    const { route, bound } = byId();
    expect(route(ONE, B)).toEqual([]);
    expect(bound({ "x-session-id": " one " })).toEqual([1]);
    expect(bound({ "x-session-id": "two" })).toEqual([]);
    expect(bound({})).toEqual([]);
  });

  it("S-46: the binding survives when another endpoint wins while the bound one is still a candidate", () => {
    const { route, bound } = byId();
    route(ONE, B);
    expect(route(ONE, C)).toEqual([1]);
    expect(bound(ONE)).toEqual([1]);
  });

  it("S-46: it moves when the bound endpoint is no candidate", () => {
    const { route, bound } = byId();
    route(ONE, B);
    expect(route(ONE, C, [A, C])).toEqual([]);
    expect(bound(ONE)).toEqual([2]);
  });

  it("goes to the endpoint that served after all, unless the bound one could have been chosen", () => {
    const { route, bound } = byId();
    route(ONE, A, [A, B, C], C);
    expect(bound(ONE)).toEqual([2]);
    route(ONE, C, [A, B, C], B);
    expect(bound(ONE)).toEqual([2]);
    route(ONE, A, [A, B], B);
    expect(bound(ONE)).toEqual([1]);
  });

  it("takes the first source that is not blank", () => {
    const { route, bound } = byId({ sources: [{ header: "X-User" }, { header: "x-session-id" }] });
    route({ "x-user": "u", "x-session-id": "s" }, B);
    expect(bound({ "x-user": "u" })).toEqual([1]);
    expect(bound({ "x-session-id": "s" })).toEqual([]);
    expect(bound({ "x-user": " ", "x-session-id": "u" })).toEqual([1]);
  });

  it("forgets a session that was idle for longer than the TTL, at the next sweep; use refreshes it", () => {
    const { clock, route, bound } = byId({ evictionTtlSeconds: 60, evictionSweepSeconds: 10 });
    const TWO = { "x-session-id": "two" };
    route(ONE, A);
    route(TWO, B);
    clock.advance(50_000);
    route(ONE, A);
    clock.advance(11_000);
    expect([bound(ONE), bound(TWO)]).toEqual([[0], []]);
    // Winning elsewhere is no use of the binding.
    clock.advance(40_000);
    route(ONE, C);
    clock.advance(15_000);
    expect(bound(ONE)).toEqual([]);
  });

  it("knows a bounded number of sessions, the idlest goes first, and none with an id too long", () => {
    const { route, bound } = byId();
    route(ONE, A);
    route({ "x-session-id": "two" }, B);
    for (let i = 2; i < MAX_SESSIONS; i++) route({ "x-session-id": `s${i}` }, C);
    expect(bound(ONE)).toEqual([0]);
    route(ONE, A);
    route({ "x-session-id": "more" }, C);
    expect([bound(ONE), bound({ "x-session-id": "two" }), bound({ "x-session-id": "s2" })]).toEqual([[0], [], [2]]);
    const long = { "x-session-id": "x".repeat(MAX_SESSION_ID + 1) };
    route(long, A);
    expect(bound(long)).toEqual([]);
  });

  it("S-46: takes what a session-id-producer found, where a source names that attribute; longer ids are passed over", () => {
    const sources = [{ header: "x-first" }, { attribute: "SessionIDDataKey", producer: "cookies" }];
    const { route, bound } = byId({ sources });
    route({ "x-first": "abc" }, C);
    expect(bound({}, [A, B, C], "abc")).toEqual([2]);
    expect(bound({ "x-first": "abc" }, [A, B, C], "other")).toEqual([2]);
    expect(bound({ "x-first": "other" }, [A, B, C], "abc")).toEqual([]);
    expect(bound({ "x-first": "x".repeat(MAX_SESSION_ID + 1) }, [A, B, C], "abc")).toEqual([2]);
    expect(bound({}, [A, B, C], undefined)).toEqual([]);
    // Producers of users may write what they like.
    const { producer } = byId({ sources: [{ attribute: "session-id" }] });
    const [id, request] = ["x".repeat(MAX_SESSION_ID + 1), requestOf("hello")];
    const candidates = columnsOf(
      [A],
      [
        [SESSION_BOUND, []],
        [SESSION_ID, id],
      ],
    );
    producer.produce(produceContextOf(candidates, request));
    producer.routed?.(request, A, new Map(), "default");
    expect(producer.debugState?.()).toMatchObject({ sessions: 0 });
  });

  it("reads the session of the producer that a source names, or of the one that goes by its type", () => {
    const parsed = (sources: readonly object[]) =>
      sessionAffinityProducer.parameters.parse({ strategy: "session_id", sessionIdConfig: { sources } });
    const named = parsed([{ header: "a" }, { attribute: "SessionIDDataKey", producer: "cookies" }]);
    expect(named).toMatchObject({ sessionIdProducerName: "cookies" });
    expect(parsed([{ attribute: "session-id" }])).toMatchObject({ sessionIdProducerName: "session-id-producer" });
    expect(parsed([{ header: "a" }])).toMatchObject({ sessionIdProducerName: "" });
    expect(sessionAffinityProducer.parameters.parse(named)).toEqual(named);
    expect(sessionAffinityProducer.references?.(named)).toEqual([
      { path: ["sessionIdConfig", "sources", 1, "producer"], name: "cookies", kind: "producer" },
    ]);
  });

  it("asks the agent-identity plugin for the agent's session, by the headers that plugin looks at", () => {
    const agents = instanceOf(agentIdentity, { additionalSessionHeaders: ["x-own-agent"] });
    const sources = [{ header: "x-session-id" }, { attribute: "agent-identity" }];
    const asked: unknown[] = [];
    const parameters = { strategy: "session_id", sessionIdConfig: { sources } };
    const plugin: PluginContext["plugin"] = (...what) => {
      asked.push(what);
      return agents as never;
    };
    const { route, bound } = affinity(parameters, { plugin });
    expect(asked).toEqual([["agent-identity", "request-header-processor"]]);
    route({ "x-claude-code-session-id": "s1" }, C);
    expect(bound({ "x-claude-code-session-id": "s1" })).toEqual([2]);
    expect(bound({ "x-own-agent": "s1" })).toEqual([2]);
    expect(bound({ "x-session-id": "s2", "x-own-agent": "s1" })).toEqual([]);
    expect(sessionAffinityReferences(sessionAffinityProducer.parameters.parse(parameters) as never)).toEqual([
      {
        path: ["sessionIdConfig", "sources", 1, "attribute"],
        name: "agent-identity",
        kind: "request-header-processor",
      },
    ]);
    const other = { process: () => undefined };
    expect(() => affinity(parameters, { plugin: () => other as never })).toThrow(
      "agent-identity is not an agent-identity, so it has no sessions",
    );
  });

  it("S-46: binds to what the profile chose that it is told; without a choice of it the binding stays as it is", () => {
    const { split, bound } = affinity({ strategy: "session_id", profileName: "prefill" });
    split(ONE, A, { prefill: B, encode: C });
    expect(bound(ONE)).toEqual([1]);
    const TWO = { "x-session-id": "two" };
    split(TWO, A, { encode: C });
    expect(bound(TWO)).toEqual([]);
    // Who serves after all is another profile's matter.
    split(TWO, A, { prefill: B }, C);
    expect(bound(TWO)).toEqual([1]);
  });

  it("the primary profile may be told by its name, and then the endpoint that served after all counts", () => {
    const { split, bound } = affinity({ strategy: "session_id", profileName: "decode" });
    split(ONE, A, { prefill: B }, C);
    expect(bound(ONE)).toEqual([2]);
    split({ "x-session-id": "two" }, A, { prefill: B });
    expect(bound({ "x-session-id": "two" })).toEqual([0]);
  });

  it("shows how many sessions each endpoint has, and none of their ids", () => {
    const { producer, route } = byId();
    for (let i = 0; i < 3; i++) route({ "x-session-id": `secret-${i}` }, i === 0 ? A : B);
    expect(producer.debugState?.()).toEqual({
      sessions: 3,
      maxSessions: MAX_SESSIONS,
      endpoints: [
        { endpoint: "default/pod-1", sessions: 2 },
        { endpoint: "default/pod-0", sessions: 1 },
      ],
      totalEndpoints: 2,
      maxEndpoints: 100,
    });
    for (let slot = 3; slot < 120; slot++)
      route({ "x-session-id": `more-${slot}` }, endpointOf(slot), [endpointOf(slot)]);
    const state = producer.debugState?.() as { endpoints: unknown[]; totalEndpoints: number };
    expect([state.endpoints.length, state.totalEndpoints]).toEqual([100, 119]);
    expect(JSON.stringify(state)).not.toMatch(/secret|more-/);
  });
});

describe("SessionTable", () => {
  it("S-46: a session that was idle for longer than the TTL goes with the next sweep, and not before", () => {
    const clock = new VirtualClock();
    const table = new SessionTable(5000, 60_000, clock);
    table.bind("a", "pod", false);
    clock.advance(59_000);
    table.bind("b", "pod", false);
    table.sweep();
    expect([table.endpointOf("a"), table.size]).toEqual(["pod", 2]);
    clock.advance(1000);
    table.sweep();
    expect([table.endpointOf("a"), table.endpointOf("b")]).toEqual([undefined, "pod"]);
  });

  it("knows a bounded number of sessions and counts them by endpoint", () => {
    const table = new SessionTable(5000, 5000, new VirtualClock());
    for (let i = 0; i < MAX_SESSIONS + 10; i++) table.bind(`s${i}`, i % 4 === 0 ? "a" : "b", false);
    expect(table.size).toBe(MAX_SESSIONS);
    expect([table.endpointOf("s9"), table.endpointOf("s10")]).toEqual([undefined, "b"]);
    const counts = table.counts();
    expect([...counts.keys()].sort()).toEqual(["a", "b"]);
    expect(counts.get("a")! + counts.get("b")!).toBe(MAX_SESSIONS);
  });
});
