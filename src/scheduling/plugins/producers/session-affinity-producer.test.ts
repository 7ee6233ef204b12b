import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../clock/random.ts";
import { VirtualClock } from "../../../clock/virtual.ts";
import type { Endpoint } from "../../../inference/endpoint.ts";
import { HeaderList } from "../../../inference/headers.ts";
import { SESSION_BOUND } from "../../../plugin/keys.ts";
import { columnsOf, endpointOf, requestOf } from "../../fakes.cases.ts";
import { encodeSessionToken } from "../session-token.ts";
import { MAX_SESSION_ID, MAX_SESSIONS, sessionAffinityProducer } from "./session-affinity-producer.ts";

const [A, B, C] = [endpointOf(0), endpointOf(1), endpointOf(2)];

/** A producer with what a test asks of it. */
function affinity(parameters: object) {
  const clock = new VirtualClock();
  const context = { name: "s", clock, random: new SeededRandom(1) };
  const producer = sessionAffinityProducer.create(sessionAffinityProducer.parameters.parse(parameters), context);
  let last = requestOf("");
  const bound = (headers: Readonly<Record<string, string>>, endpoints: readonly Endpoint[] = [A, B, C]) => {
    last = requestOf("hello", { headers: HeaderList.of(Object.entries(headers)) });
    const candidates = columnsOf(endpoints, [[SESSION_BOUND, []]]);
    producer.produce({ request: last, candidates });
    return endpoints.filter((_, i) => candidates.column(SESSION_BOUND)[i] === 1).map(({ slot }) => slot);
  };
  return {
    clock,
    /** Slots of the candidates that the request's session is bound to. */
    bound,
    /** The same, and the request goes to `to`, or in the end to `served`. */
    route(headers: Readonly<Record<string, string>>, to: Endpoint, endpoints?: readonly Endpoint[], served?: Endpoint) {
      const slots = bound(headers, endpoints);
      const moved = producer.follow?.(last);
      producer.routed?.(last, to);
      if (served !== undefined) moved?.(served);
      return slots;
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

  it("S-46: no token, a blank one and one that is none bind to nobody", () => {
    const { bound } = affinity({});
    for (const token of ["", "  ", "default/pod-1", "%%%", encodeSessionToken("default/pod-9"), "A".repeat(5000)])
      expect(bound({ "x-session-token": token })).toEqual([]);
    expect(bound({})).toEqual([]);
  });

  it("reads the header it is told, however written", () => {
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
});
