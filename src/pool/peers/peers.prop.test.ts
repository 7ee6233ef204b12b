import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FakeStore, TestReplica } from "../../../test/support/peers/replicas.ts";
import type { Random } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";

const ENDPOINTS = 3;
const PLACES = 4;
/** Milliseconds in which all replicas agree once the store delivers again. */
const CONVERGES = 5000;

type Step =
  | { readonly do: "send" | "end"; readonly replica: number; readonly which: number }
  | { readonly do: "wait"; readonly ms: number }
  /** The process dies without a word; `sameId` and a clock that was set back make its next life look like an old one. */
  | { readonly do: "restart" | "kill"; readonly replica: number; readonly sameId: boolean; readonly clockMs: number };

const which = fc.nat(20);
const replica = fc.nat(PLACES - 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constantFrom("send" as const, "end" as const), replica, which }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.nat(1500) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      ...{ do: fc.constantFrom("restart" as const, "kill" as const), replica, sameId: fc.boolean() },
      clockMs: fc.integer({ min: -10_000_000, max: 10_000_000 }),
    }),
  },
);

/** The chance of one life of a replica: four draws make its id, the next one its epoch. */
function chance(id: number, life: number): Random {
  let draw = 0;
  return { next: () => 0.5, below: (bound) => (draw++ < 4 ? id * 7919 : life * 101) % bound };
}

describe("replicas that share their loads", () => {
  it("agree with the sum of all, whatever was lost, late, repeated or restarted with an old epoch", () => {
    const fates = fc.array(fc.array(fc.nat(2500), { maxLength: 3 }), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fates, (steps, delays) => {
        const clock = new VirtualClock(1e12);
        const store = new FakeStore(clock);
        let delivery = 0;
        store.fate = () => delays[delivery++ % delays.length]!;
        let ids = 0;
        let lives = 0;
        const start = (id: number): TestReplica => {
          const made = new TestReplica(store, clock, { endpoints: ENDPOINTS, random: chance(id, ++lives) });
          made.peers.start();
          return made;
        };
        const running: { id: number; replica: TestReplica | undefined }[] = Array.from({ length: PLACES }, () => {
          const id = ++ids;
          return { id, replica: start(id) };
        });
        for (const one of steps) {
          if (one.do === "wait") clock.advance(one.ms);
          else {
            const place = running[one.replica]!;
            if (one.do === "send") place.replica?.send(one.which % ENDPOINTS);
            else if (one.do === "end") place.replica?.end(one.which);
            else {
              if (place.replica !== undefined) store.kill(place.replica.peers);
              place.replica = undefined;
              if (one.do === "restart") {
                clock.set(one.clockMs);
                place.id = one.sameId ? place.id : ++ids;
                place.replica = start(place.id);
              }
            }
          }
        }
        // What is still on its way arrives, and the store delivers in order again.
        clock.advance(2500);
        store.fate = () => [0];
        clock.advance(CONVERGES);
        const living = running.flatMap((one) => (one.replica === undefined ? [] : [one.replica]));
        const truth = Array.from({ length: ENDPOINTS }, (_, i) => living.reduce((sum, one) => sum + one.own()[i]!, 0));
        for (const one of living) {
          expect(one.seen()).toEqual(truth);
          const tokens = living.reduce((sum, other) => sum + other.at(0).own.tokens, 0);
          expect(one.at(0).inFlight.tokens).toBe(tokens);
          expect(one.peers.table.live).toBe(living.length - 1);
        }
      }),
      { numRuns: 300 },
    );
  });
});
