import { describe, expect, it } from "vitest";
import { type CaseContext, ids, LONG, ok, Q } from "./context.cases.ts";
import { queueOf } from "./harness.cases.ts";

/** What a broker tells: wake-up, backlog, and what people look at. */
export function figureCases(c: CaseContext): void {
  describe("figures and wake-up", () => {
    it("a submission wakes the dispatcher up, only for its own queue", async () => {
      await c.begin(LONG, [Q, queueOf("other")]);
      await c.harness.until("the broker is there", 2000, async () => {
        await c.broker.check();
        return true;
      });
      await c.submit("a");
      await c.harness.until("announced", 2000, () => c.events.availableIn.includes("q"));
      expect(c.events.availableIn).not.toContain("other");
    });

    it("a backlog counts what waits, runs, is parked and is dead", async () => {
      await c.begin();
      expect(await c.broker.backlog(Q)).toEqual({
        waiting: 0,
        claimed: 0,
        retries: 0,
        dead: 0,
        nextDeadline: Number.NaN,
      });
      for (const [at, id] of ["a", "b", "c", "d"].entries()) await c.submit(id, 300 + at);
      const [a, b] = await c.claim(2);
      await c.broker.settle([await c.retried(a!, 60)]);
      expect(b).toBeDefined();
      expect(await c.broker.backlog(Q)).toEqual({
        waiting: 2,
        claimed: 1,
        retries: 1,
        dead: 0,
        nextDeadline: c.inSeconds(302),
        nextCreated: expect.any(Number),
      });
      const { nextCreated } = await c.broker.backlog(Q);
      expect(Math.abs(nextCreated! - (await c.harness.now()) / 1000)).toBeLessThan(60);
    });

    it("people see the first entries without claiming them", async () => {
      await c.begin();
      await c.submit("b", 600);
      await c.submit("a", 300);
      const entries = await c.harness.inspector.peek("q", 1);
      expect(entries).toHaveLength(1);
      expect(JSON.parse(entries[0]!.entry)).toMatchObject({ data: { id: "a" } });
      expect(await c.claim(5)).toHaveLength(2);
    });

    it("dead letters go back into the queue, the oldest first", async () => {
      await c.begin();
      await c.submit("a", 300);
      await c.submit("b", 600);
      for (const each of await c.claim(2))
        await c.broker.settle([{ kind: "dead", claim: each, reason: "x", result: ok("r") }]);
      expect(await c.harness.inspector.requeueDead("q", 1)).toBe(1);
      expect(ids(await c.claim(5))).toEqual(["a"]);
      expect(await c.harness.inspector.requeueDead("q", 100)).toBe(1);
      expect(ids(await c.claim(5))).toEqual(["b"]);
      expect(await c.dead()).toEqual([]);
    });
  });
}
