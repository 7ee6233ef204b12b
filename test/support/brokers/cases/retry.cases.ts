import { describe, expect, it } from "vitest";
import { type CaseContext, envelope, ids, LONG, Q, refused } from "./context.cases.ts";
import { queueOf } from "./harness.cases.ts";

/** Parking for a retry and coming back. */
export function retryCases(c: CaseContext): void {
  describe("retry", () => {
    it("A-54 stays away until it is due and comes back at its deadline's place", async () => {
      await c.begin();
      await c.submit("a", 300);
      await c.submit("b", 600);
      const [a] = await c.claim(1);
      expect(await c.broker.settle([await c.retried(a!, 60, { classification: "spot" })])).toEqual(["settled"]);
      const wait = await c.broker.moveDue();
      expect(wait).toBeGreaterThan(0);
      expect(wait).toBeLessThanOrEqual(500);
      const [b, none] = await c.claim(2);
      expect(ids([b!])).toEqual(["b"]);
      expect(none).toBeUndefined();
      await c.broker.settle([refused(b!)]);
      expect(await c.broker.backlog(Q)).toMatchObject({ waiting: 1, retries: 1 });
    });

    it("A-54 is queued again when it is due, and that is announced", async () => {
      await c.begin();
      await c.submit("a", 300);
      await c.submit("b", 600);
      const [a] = await c.claim(1);
      await c.broker.settle([await c.retried(a!, 0.3, { classification: "spot" })]);
      c.events.availableIn.length = 0;
      await c.harness.until("the retry is back", 1000, async () => {
        const wait = await c.broker.moveDue();
        expect(wait).toBeGreaterThanOrEqual(0);
        return (await c.broker.backlog(Q)).retries === 0;
      });
      await c.harness.until("announced", 2000, () => c.events.availableIn.includes("q"));
      const [again, b] = await c.claim(2);
      expect(ids([again!, b!])).toEqual(["a", "b"]);
      expect(again!.message.routing).toMatchObject({ retryCount: 1, labels: { classification: "spot" } });
      expect(again!.id).not.toBe(a!.id);
    });

    it("A-54 a raw score does not come back: the deadline is the place", async () => {
      await c.begin();
      await c.harness.inject("q", envelope({}, { id: "raw", deadline: c.inSeconds(900) }), c.inSeconds(30));
      await c.submit("a", 300);
      const [raw] = await c.claim(1);
      await c.broker.settle([await c.retried(raw!, -1)]);
      await c.broker.moveDue();
      expect((await c.harness.inspector.peek("q", 2))[1]?.score).toBe(c.inSeconds(900));
      expect(ids(await c.claim(2))).toEqual(["a", "raw"]);
    });

    it("A-55 5,000 that are due together all come back", async () => {
      await c.begin();
      const requests = Array.from({ length: 5000 }, (_, at) => c.request(`m${at}`));
      for (let at = 0; at < 5000; at += 500) await c.producer.submitRequests(requests.slice(at, at + 500));
      for (let at = 0; at < 10; at++)
        await c.broker.settle(await Promise.all((await c.claim(500)).map((each) => c.retried(each, -1))));
      expect(await c.broker.backlog(Q)).toMatchObject({ waiting: 0, retries: 5000 });
      await c.harness.until("all are back", 5000, async () => {
        await c.broker.moveDue();
        return (await c.broker.backlog(Q)).waiting === 5000;
      });
      expect(await c.broker.backlog(Q)).toMatchObject({ waiting: 5000, retries: 0 });
    });

    it("A-56 two movers at once duplicate nothing", async () => {
      await c.begin();
      for (let at = 0; at < 50; at++) await c.submit(`m${at}`);
      await c.broker.settle(await Promise.all((await c.claim(50)).map((each) => c.retried(each, -1))));
      const peer = c.startPeer();
      await Promise.all([c.broker.moveDue(), peer.moveDue(), c.broker.moveDue(), peer.moveDue()]);
      const got = ids(await c.claim(100));
      expect(got).toHaveLength(50);
      expect(new Set(got).size).toBe(50);
    });

    it("returns to the queue it came from, whatever the message says", async () => {
      const other = queueOf("other");
      await c.begin(LONG, [Q, other]);
      const deadline = c.inSeconds(600);
      const routing = { request_queue_name: "q", queue_id: "q" };
      await c.harness.inject("other", envelope(routing, { id: "a", deadline }), deadline);
      const [a] = await c.claim(1, c.broker, other);
      await c.broker.settle([await c.retried(a!, -1)]);
      await c.broker.moveDue();
      expect(await c.claim(1)).toEqual([]);
      expect(ids(await c.claim(1, c.broker, other))).toEqual(["a"]);
    });
  });
}
