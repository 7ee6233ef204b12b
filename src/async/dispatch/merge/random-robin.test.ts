import { describe, expect, it } from "vitest";
import { madeClaim, madeQueues } from "../../../../test/support/dispatch/merge/made.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { FairnessStamp } from "./merge-policy.ts";
import { RandomRobin } from "./random-robin.ts";

const fairness = new FairnessStamp("", "userid");

describe("RandomRobin", () => {
  it("picks all queues within 10 % of each other over 10,000, however long they are (A-68)", () => {
    const queues = madeQueues(5);
    const policy = new RandomRobin(queues, 64, new SeededRandom(7), fairness);
    for (const [i, queue] of queues.entries()) for (let n = 0; n <= i * 3; n++) policy.add(madeClaim(queue, `${n}`));
    const picks = new Map(queues.map((queue) => [queue, 0]));
    for (let i = 0; i < 10_000; i++) {
      const claim = policy.next()!;
      picks.set(claim.queue, picks.get(claim.queue)! + 1);
      policy.add(claim);
    }
    for (const count of picks.values()) {
      expect(count).toBeGreaterThan(1800);
      expect(count).toBeLessThan(2200);
    }
  });

  it("passes over queues that have nothing", () => {
    const [a, , c] = madeQueues(3);
    const policy = new RandomRobin(madeQueues(0).concat([a!, c!]), 4, new SeededRandom(1), fairness);
    policy.add(madeClaim(c!, "1"));
    policy.add(madeClaim(c!, "2"));
    expect([policy.next()?.id, policy.next()?.id, policy.next()]).toEqual(["1", "2", undefined]);
  });

  it("takes nothing while no worker is free, and nothing for workers that held messages will take", () => {
    const [queue] = madeQueues(1);
    const policy = new RandomRobin([queue!], 4, new SeededRandom(1), fairness);
    expect(policy.room(queue!, 0)).toBe(0);
    expect(policy.room(queue!, 4)).toBe(4);
    for (let i = 0; i < 3; i++) policy.add(madeClaim(queue!, `${i}`));
    expect(policy.room(queue!, 4)).toBe(1);
    policy.add(madeClaim(queue!, "3"));
    expect(policy.room(queue!, 4)).toBe(0);
  });

  it("spreads free workers over queues that all ask at once", () => {
    const queues = madeQueues(4);
    const policy = new RandomRobin(queues, 64, new SeededRandom(1), fairness);
    expect(queues.map((queue) => policy.room(queue, 64))).toEqual([16, 16, 16, 16]);
    expect(queues.map((queue) => policy.room(queue, 1))).toEqual([1, 1, 1, 1]);
  });

  it("gives a queue all free workers once the others were found empty for a while, and takes them back", () => {
    const queues = madeQueues(4);
    const [busy, other] = queues;
    const policy = new RandomRobin(queues, 8, new SeededRandom(1), fairness);
    for (let i = 0; i < 32; i++) {
      expect(policy.room(busy!, 8)).toBe(2);
      policy.add(madeClaim(busy!, `${i}`));
      policy.next();
    }
    expect(policy.room(busy!, 8)).toBe(8);
    expect(policy.room(other!, 8)).toBe(4);
    policy.add(madeClaim(other!, "first"));
    policy.next();
    expect(policy.room(busy!, 8)).toBe(4);
  });
});
