import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { madeClaim, madeQueues } from "../../../../test/support/dispatch/merge/made.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import type { Claim } from "../../brokers/broker.ts";
import type { QueueSettings } from "../../brokers/settings.ts";
import { FairnessStamp, type MergePolicy } from "./merge-policy.ts";
import { RandomRobin } from "./random-robin.ts";
import { TierPriority } from "./tier-priority.ts";

const fairness = new FairnessStamp("", "userid");
const options = { priorityHeader: "p", tierLabel: "tier", fairness };
type Make = (queues: readonly QueueSettings[], workers: number, seed: number) => MergePolicy;
const POLICIES: readonly (readonly [string, Make])[] = [
  ["random-robin", (queues, workers, seed) => new RandomRobin(queues, workers, new SeededRandom(seed), fairness)],
  ["tier-priority", (queues, workers) => new TierPriority(queues, workers, options)],
];

type Step =
  | { readonly kind: "fill"; readonly queue: number; readonly free: number }
  | { readonly kind: "next" | "drain" };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("fill"), queue: fc.nat(7), free: fc.nat(16) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("next") }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("drain") }) },
);
const CLASSES = ["reserved", "overflow"];
const TIERS = ["interactive", "async", "batch"];
/** The lane of the n-th message, spread so that neighbours differ. */
const laneOf = (n: number) => (n * 5 + (n >> 2)) % 6;
const labelsOf = (lane: number) => ({ classification: CLASSES[Math.floor(lane / 3)]!, tier: TIERS[lane % 3]! });

/** Runs steps against a policy and a list of what it must hold; `check` sees every claim that `next` gives. */
function run(
  policy: MergePolicy,
  queues: readonly QueueSettings[],
  steps: readonly Step[],
  bound: (free: number) => number,
  check: (claim: Claim, held: readonly Claim[]) => void,
): void {
  const held: Claim[] = [];
  let made = 0;
  for (const it of steps) {
    if (it.kind === "fill") {
      const queue = queues[it.queue % queues.length]!;
      const room = policy.room(queue, it.free);
      expect(Number.isInteger(room) && room >= 0).toBe(true);
      for (let n = 0; n < room; n++) {
        const claim = madeClaim(queue, String(made));
        policy.add(claim, labelsOf(laneOf(made++)));
        held.push(claim);
      }
      if (room > 0) expect(held.length).toBeLessThanOrEqual(bound(it.free));
    } else if (it.kind === "next") {
      const claim = policy.next();
      expect(claim === undefined).toBe(held.length === 0);
      if (claim === undefined) continue;
      expect(held).toContain(claim);
      check(claim, held);
      held.splice(held.indexOf(claim), 1);
    } else {
      expect(new Set(policy.drain())).toEqual(new Set(held));
      held.length = 0;
      expect(policy.next()).toBeUndefined();
    }
    expect(policy.size).toBe(held.length);
  }
  const rest = policy.drain();
  expect(rest.length).toBe(held.length);
  expect(new Set(rest)).toEqual(new Set(held));
}

const world = fc.record({
  queues: fc.integer({ min: 1, max: 8 }),
  workers: fc.integer({ min: 1, max: 16 }),
  seed: fc.nat(),
  steps: fc.array(step, { maxLength: 120 }),
});

describe("merge policies", () => {
  it.each(POLICIES)("%s loses and invents nothing, and stays within its bound", (name, make) => {
    fc.assert(
      fc.property(world, ({ queues, workers, seed, steps }) => {
        const made = madeQueues(queues);
        const bound = (free: number) => (name === "random-robin" ? free : Math.max(2 * workers, queues));
        run(make(made, workers, seed), made, steps, bound, () => {});
      }),
    );
  });

  it("random-robin keeps the order of claims within a queue", () => {
    fc.assert(
      fc.property(world, ({ queues, workers, seed, steps }) => {
        const made = madeQueues(queues);
        const policy = new RandomRobin(made, workers, new SeededRandom(seed), fairness);
        run(policy, made, steps, Number, (claim, held) =>
          expect(held.find(({ queue }) => queue === claim.queue)).toBe(claim),
        );
      }),
    );
  });

  it("tier-priority never serves a lane while a lower one holds something, and keeps order within lane and queue", () => {
    fc.assert(
      fc.property(world, ({ queues, workers, steps }) => {
        const made = madeQueues(queues);
        const policy = new TierPriority(made, workers, options);
        const lane = ({ id }: Claim) => laneOf(Number(id));
        run(
          policy,
          made,
          steps,
          () => Number.POSITIVE_INFINITY,
          (claim, held) => {
            expect(lane(claim)).toBe(Math.min(...held.map(lane)));
            expect(held.find((other) => other.queue === claim.queue && lane(other) === lane(claim))).toBe(claim);
          },
        );
      }),
    );
  });

  it("tier-priority serves a queue at most once between two turns of another that has something in the lane", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(3), { minLength: 2, maxLength: 60 }), (order) => {
        const made = madeQueues(4);
        const policy = new TierPriority(made, 1000, options);
        for (const [n, queue] of order.entries()) policy.add(madeClaim(made[queue]!, String(n)), {});
        const left = made.map((queue) => order.filter((index) => made[index] === queue).length);
        const since = made.map(() => new Set<QueueSettings>());
        for (let claim = policy.next(); claim !== undefined; claim = policy.next()) {
          for (const [i, seen] of since.entries()) {
            if (made[i] === claim.queue) seen.clear();
            else if (left[i]! > 0) {
              expect(seen.has(claim.queue)).toBe(false);
              seen.add(claim.queue);
            }
          }
          left[made.indexOf(claim.queue)]!--;
        }
      }),
    );
  });
});
