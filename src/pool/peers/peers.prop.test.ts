import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FakeStore, TestReplica } from "../../../test/support/peers/replicas.ts";
import type { Random } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";

const ENDPOINTS = 3;
/** Replicas of one cluster, and those of another one that uses the same keys of the store by mistake. */
const CLUSTERS = [0, 0, 0, 1, 1] as const;
const SECRETS = ["", "of the other cluster"] as const;
/** Milliseconds in which all replicas agree once the store delivers again. */
const CONVERGES = 5000;
const LATEST_WALL = 10_000_000;

type Step =
  | { readonly do: "send" | "end"; readonly replica: number; readonly which: number }
  | { readonly do: "wait"; readonly ms: number }
  /** The wall clock of all processes. */
  | { readonly do: "jump"; readonly clockMs: number }
  /** A replica loses the store, or has it again. */
  | { readonly do: "cut"; readonly replica: number; readonly told: boolean }
  /** The process dies without a word; `sameId` and a clock that was set back make its next life look like an old one. */
  | { readonly do: "restart" | "kill"; readonly replica: number; readonly sameId: boolean; readonly clockMs: number };

const which = fc.nat(20);
const replica = fc.nat(CLUSTERS.length - 1);
const clockMs = fc.integer({ min: -LATEST_WALL, max: LATEST_WALL });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constantFrom("send" as const, "end" as const), replica, which }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.nat(1500) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("jump" as const), clockMs }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cut" as const), replica, told: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      ...{ do: fc.constantFrom("restart" as const, "kill" as const), replica, sameId: fc.boolean(), clockMs },
    }),
  },
);

/** The chance of one life of a replica: four draws make its id, the next one its epoch. */
function chance(id: number, life: number): Random {
  let draw = 0;
  return { next: () => 0.5, below: (bound) => (draw++ < 4 ? id * 7919 : life * 101) % bound };
}

/** A place for a replica: what runs there, if anything, and whether it has lost the store. */
interface Place {
  readonly cluster: 0 | 1;
  id: number;
  replica: TestReplica | undefined;
  cut: "no" | "silent" | "told";
}

describe("replicas that share their loads", () => {
  it("agree with the sum of their cluster, whatever was lost, late, repeated, cut off or restarted with an old epoch", () => {
    const fates = fc.array(fc.array(fc.nat(2500), { maxLength: 3 }), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fates, (steps, delays) => {
        const clock = new VirtualClock(1e12);
        const store = new FakeStore(clock);
        let delivery = 0;
        store.fate = () => delays[delivery++ % delays.length]!;
        let ids = 0;
        let lives = 0;
        const start = (id: number, cluster: 0 | 1): TestReplica => {
          const random = chance(id, ++lives);
          const made = new TestReplica(store, clock, { endpoints: ENDPOINTS, random, secret: SECRETS[cluster] });
          made.peers.start();
          return made;
        };
        const places = CLUSTERS.map((cluster): Place => {
          const id = ++ids;
          return { cluster, id, replica: start(id, cluster), cut: "no" };
        });
        const join = (place: Place): void => {
          if (place.replica !== undefined && place.cut !== "no")
            store.cut(place.replica.peers, false, place.cut === "told");
          place.cut = "no";
        };
        for (const one of steps) {
          if (one.do === "wait") clock.advance(one.ms);
          else if (one.do === "jump") clock.set(one.clockMs);
          else {
            const place = places[one.replica]!;
            if (one.do === "send") place.replica?.send(one.which % ENDPOINTS);
            else if (one.do === "end") place.replica?.end(one.which);
            else if (one.do === "cut") {
              if (place.cut !== "no") join(place);
              else if (place.replica !== undefined) {
                place.cut = one.told ? "told" : "silent";
                store.cut(place.replica.peers, true, one.told);
              }
            } else {
              join(place);
              if (place.replica !== undefined) store.kill(place.replica.peers);
              place.replica = undefined;
              if (one.do === "restart") {
                clock.set(one.clockMs);
                place.id = one.sameId ? place.id : ++ids;
                place.replica = start(place.id, place.cluster);
              }
            }
          }
        }
        // What is still on its way arrives, and the store delivers to all, in order, again.
        clock.advance(2500);
        store.fate = () => [0];
        for (const place of places) join(place);
        clock.advance(CONVERGES);
        const living = places.flatMap(({ cluster, replica: one }) => (one === undefined ? [] : [{ cluster, one }]));
        for (const { cluster, one } of living) {
          const own = living.filter((other) => other.cluster === cluster).map((other) => other.one);
          const truth = Array.from({ length: ENDPOINTS }, (_, i) =>
            own.reduce((sum, other) => sum + other.own()[i]!, 0),
          );
          expect(one.seen()).toEqual(truth);
          expect(one.at(0).inFlight.tokens).toBe(own.reduce((sum, other) => sum + other.at(0).own.tokens, 0));
          expect(one.peers.table.live).toBe(own.length - 1);
          // The mistake is told by everyone who can see it.
          if (living.length > own.length) expect(one.peers.refused.cluster).toBeGreaterThan(0);
        }
      }),
      { numRuns: 300 },
    );
  });
});
