import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import { EndpointRegistry } from "./registry.ts";

function setUp(count = 2): { clock: VirtualClock; pool: EndpointRegistry; endpoints: PoolEndpoint[] } {
  const clock = new VirtualClock();
  const pool = new EndpointRegistry({ clock, random: new SeededRandom(1) });
  const endpoints = Array.from({ length: count }, (_, i) => {
    const spec = { namespace: "default", name: `e${i}`, address: `10.0.0.${i}`, port: 8000, rank: 0, labels: {} };
    return pool.upsert(spec)!;
  });
  return { clock, pool, endpoints };
}

describe("InFlight", () => {
  it("has one set of counts for what was sent and what decisions see, until replicas share their load", () => {
    const [a] = setUp().endpoints as [PoolEndpoint];
    expect([a.own === a.inFlight, a.peers]).toEqual([true, undefined]);
  });

  it("counts a request and its tokens from routing to its end", () => {
    const { pool, endpoints } = setUp();
    const [a] = endpoints as [PoolEndpoint];
    const ticket = pool.inFlight.open(a, 120.5);
    expect(a.inFlight).toMatchObject({ requests: 1, tokens: 120.5 });
    ticket.firstResponseByte();
    ticket.firstResponseByte();
    expect(a.inFlight).toMatchObject({ requests: 1, tokens: 0 });
    ticket.release();
    ticket.release();
    expect(a.inFlight).toMatchObject({ requests: 0, tokens: 0 });
  });

  it("moves the count to the endpoint that is tried next", () => {
    const { pool, endpoints } = setUp();
    const [a, b] = endpoints as [PoolEndpoint, PoolEndpoint];
    const ticket = pool.inFlight.open(a, 100);
    ticket.moveTo(b, 70);
    expect(a.inFlight).toMatchObject({ requests: 0, tokens: 0 });
    expect(b.inFlight).toMatchObject({ requests: 1, tokens: 70 });
    ticket.release();
    ticket.moveTo(a, 100);
    ticket.firstResponseByte();
    expect([a, b].map((endpoint) => endpoint.inFlight.requests)).toEqual([0, 0]);
  });

  it("survives the removal of the endpoint, and a namesake starts at zero", () => {
    const { pool, endpoints } = setUp();
    const [a] = endpoints as [PoolEndpoint];
    const ticket = pool.inFlight.open(a, 5);
    pool.remove(a.id);
    const again = pool.upsert(a)!;
    expect(again.inFlight).toMatchObject({ requests: 0, tokens: 0 });
    ticket.release();
    expect(a.inFlight.requests).toBe(0);
    expect(again.inFlight.requests).toBe(0);
  });

  it("takes an absurd token estimate as 0", () => {
    const { pool, endpoints } = setUp();
    const [a] = endpoints as [PoolEndpoint];
    for (const tokens of [Number.NaN, Number.POSITIVE_INFINITY, -5]) pool.inFlight.open(a, tokens);
    expect(a.inFlight).toMatchObject({ requests: 3, tokens: 0 });
  });

  it("tells of the first request on an idle endpoint, and remembers when the last one ended", () => {
    const { clock, pool, endpoints } = setUp();
    const [a] = endpoints as [PoolEndpoint];
    const first: string[] = [];
    pool.onFirstRequest((endpoint) => first.push(endpoint.name));
    const one = pool.inFlight.open(a, 0);
    const two = pool.inFlight.open(a, 0);
    clock.advance(300);
    one.release();
    two.release();
    expect(first).toEqual(["e0"]);
    expect(a.lastTrafficAt).toBe(300);
    pool.inFlight.open(a, 0);
    expect(first).toEqual(["e0", "e0"]);
  });

  it("is never negative, equals what the open tickets hold, and ends at exactly zero", () => {
    const step = fc.record({
      ticket: fc.nat(7),
      what: fc.constantFrom("open", "move", "firstByte", "release", "remove"),
      endpoint: fc.nat(2),
      tokens: fc.double({ min: 0, max: 1e6, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const { pool, endpoints } = setUp(3);
        const open = new Map<number, { ticket: ReturnType<typeof pool.inFlight.open>; at: number }>();
        for (const { ticket: key, what, endpoint: at, tokens } of steps) {
          const held = open.get(key);
          if (what === "remove") pool.remove(endpoints[at]!.id);
          else if (held === undefined) open.set(key, { ticket: pool.inFlight.open(endpoints[at]!, tokens), at });
          else if (what === "move") {
            held.ticket.moveTo(endpoints[at]!, tokens);
            held.at = at;
          } else if (what === "firstByte") held.ticket.firstResponseByte();
          else if (what === "release") {
            held.ticket.release();
            open.delete(key);
          }
          for (const [i, endpoint] of endpoints.entries()) {
            expect(endpoint.inFlight.requests).toBe([...open.values()].filter((ticket) => ticket.at === i).length);
            expect(endpoint.inFlight.tokens).toBeGreaterThanOrEqual(0);
          }
        }
        for (const { ticket } of open.values()) ticket.release();
        for (const { inFlight } of endpoints) expect(inFlight).toMatchObject({ requests: 0, tokens: 0 });
      }),
    );
  });
});
