import { describe, expect, it } from "vitest";
import type { Broker, Claim, Settlement } from "../../../../src/async/brokers/broker.ts";
import { answered, type CaseContext, envelope, ids, LONG, NOBODY, ok, Q, refused, SHORT } from "./context.cases.ts";
import { queueOf } from "./harness.cases.ts";

const HOUR = 3_600_000;

/** Leases that run out, are renewed, are lost. */
export function leaseCases(c: CaseContext): void {
  describe("leases", () => {
    /** Time passes until `by` has queued again and claimed what nobody renews. */
    async function takenOver(by: Broker): Promise<Claim> {
      const got: Claim[] = [];
      await c.harness.until("the lease ran out", 1000, async () => {
        await by.reclaim(NOBODY);
        got.push(...(await c.claim(1, by)));
        return got.length > 0;
      });
      return got[0]!;
    }

    it("A-44 what a lost process held goes to another", async () => {
      await c.begin(SHORT);
      await c.submit("a");
      await c.claim(1);
      const again = await takenOver(c.startPeer());
      expect(ids([again])).toEqual(["a"]);
      expect(again.message.routing).toMatchObject({ lostLeases: 1, retryCount: 0 });
    });

    describe.each([
      ["forward", HOUR],
      ["back", -HOUR],
    ])("a clock that is set %s by an hour", (_, ms) => {
      it("takes no lease from whoever holds it", async () => {
        await c.begin();
        const peer = c.startPeer();
        for (const id of ["a", "b", "c"]) await c.submit(id, 30 * 86_400);
        const [a, b, held] = await c.claim(3);
        for (const each of [c.broker, peer]) await each.reclaim(NOBODY);
        await c.harness.setClock(ms);
        expect(await c.broker.settle([answered(a!)])).toEqual(["settled"]);
        for (let round = 0; round < 2; round++) for (const each of [peer, c.broker]) await each.reclaim(NOBODY);
        expect(await c.claim(3, peer)).toEqual([]);
        expect(await c.broker.renew([b!, held!])).toEqual([]);
        expect([b!.lost, held!.lost, c.events.reclaimedCount]).toEqual([false, false, 0]);
        await peer.reclaim(NOBODY);
        expect(await c.broker.settle([answered(b!), answered(held!)])).toEqual(["settled", "settled"]);
        expect(await c.results()).toHaveLength(3);
        expect(await peer.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0 });
      });

      it("takes no lease that is renewed in its own time, which is after the next look", async () => {
        await c.begin();
        await c.submit("a", 30 * 86_400);
        const [a] = await c.claim(1);
        await c.harness.setClock(ms);
        await c.broker.reclaim(NOBODY);
        // So long that what was left of the lease by the old clock does not count, and half as long as the lease.
        let looks = 0;
        await c.harness.until("half of a lease", LONG.claimTtl / 2, async () => {
          await c.broker.reclaim(NOBODY);
          return ++looks >= 20;
        });
        expect(await c.broker.renew([a!])).toEqual([]);
        expect(await c.broker.settle([answered(a!)])).toEqual(["settled"]);
      });

      it("is noticed by a process that has looked at it only when it claimed, in every queue", async () => {
        const other = queueOf("other");
        await c.begin(LONG, [Q, other]);
        await c.submit("q", 30 * 86_400);
        const second = c.harness.producer("other", "results");
        await second.submitRequest(c.request("other", 30 * 86_400));
        await second.close();
        const claims = [...(await c.claim(1)), ...(await c.claim(1, c.broker, other))];
        expect(ids(claims)).toEqual(["q", "other"]);
        await c.harness.setClock(ms);
        await c.broker.reclaim(NOBODY);
        expect([await c.claim(1), await c.claim(1, c.broker, other)]).toEqual([[], []]);
        expect(await c.broker.settle(claims.map(answered))).toEqual(["settled", "settled"]);
      });

      it("does not keep the message of a process that has died", async () => {
        await c.begin(SHORT);
        await c.submit("a", 30 * 86_400);
        await c.claim(1);
        const peer = c.startPeer();
        for (const each of [c.broker, peer]) await each.reclaim(NOBODY);
        await c.harness.setClock(ms);
        expect(ids([await takenOver(peer)])).toEqual(["a"]);
      });
    });

    it("A-44 a lease that holds is not touched by anybody else", async () => {
      await c.begin();
      await c.submit("a");
      const [a] = await c.claim(1);
      const peer = c.startPeer();
      await peer.reclaim(NOBODY);
      expect(await c.claim(1, peer)).toEqual([]);
      expect(await c.broker.settle([answered(a!)])).toEqual(["settled"]);
    });

    it("A-45 whoever comes back late finds its lease lost and settles nothing", async () => {
      await c.begin(SHORT);
      await c.submit("a");
      const [late] = await c.claim(1);
      const peer = c.startPeer();
      const again = await takenOver(peer);
      expect(await c.broker.settle([answered(late!)])).toEqual(["fenced"]);
      expect(await c.broker.settle([await c.retried(late!, -1)])).toEqual(["fenced"]);
      expect(await c.broker.settle([refused(late!)])).toEqual(["fenced"]);
      const given: Settlement = { kind: "dead", claim: late!, reason: "late", result: ok("a") };
      expect(await c.broker.settle([given])).toEqual(["fenced"]);
      expect(await c.broker.renew([late!])).toEqual([late]);
      expect(late!.lost).toBe(true);
      expect(await c.results()).toEqual([]);
      expect(await c.dead()).toEqual([]);
      expect(await peer.settle([answered(again)])).toEqual(["settled"]);
      expect(await c.results()).toHaveLength(1);
      expect(await peer.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0, retries: 0 });
    });

    it("a lease that is renewed outlives one that is not", async () => {
      await c.begin(SHORT);
      await c.submit("kept", 300);
      await c.submit("left", 600);
      const [kept] = await c.claim(2);
      c.leaseFor(LONG.claimTtl);
      const peer = c.startPeer();
      const got: Claim[] = [];
      await c.harness.until("one lease ran out", 1000, async () => {
        expect(await c.broker.renew([kept!])).toEqual([]);
        await peer.reclaim(NOBODY);
        got.push(...(await c.claim(2, peer)));
        return got.length > 0;
      });
      expect(ids(got)).toEqual(["left"]);
      expect(kept!.lost).toBe(false);
      expect(await c.broker.settle([answered(kept!)])).toEqual(["settled"]);
    });

    it("a renewal tells the lost from the kept", async () => {
      await c.begin(SHORT);
      await c.submit("a", 300);
      const [lost] = await c.claim(1);
      await takenOver(c.startPeer());
      await c.submit("b", 600);
      const [kept] = await c.claim(1);
      expect(await c.broker.renew([kept!, lost!])).toEqual([lost]);
      expect([kept!.lost, lost!.lost]).toEqual([false, true]);
    });

    it("reports what it queued again, and that there is something", async () => {
      await c.begin(SHORT);
      const peer = c.startPeer();
      for (const id of ["a", "b"]) await c.submit(id);
      await c.harness.until("announced", 2000, () => c.events.availableIn.length > 0);
      await c.claim(2, peer);
      c.events.availableIn.length = 0;
      await c.harness.until("the leases ran out", 1000, async () => {
        await c.broker.reclaim(NOBODY);
        return c.events.reclaimedCount > 0;
      });
      expect(c.events.reclaimedCount).toBe(2);
      await c.harness.until("announced again", 2000, () => c.events.availableIn.includes("q"));
    });

    it("a message that loses its lease goes back to its old place", async () => {
      await c.begin(SHORT);
      await c.harness.inject("q", envelope({}, { id: "raw", deadline: c.inSeconds(900) }), c.inSeconds(30));
      await c.submit("a", 300);
      await c.claim(1);
      const peer = c.startPeer();
      await c.harness.until("the lease ran out", 1000, async () => {
        await peer.reclaim(NOBODY);
        return (await peer.backlog(Q)).waiting === 2;
      });
      expect(ids(await c.claim(2, peer))).toEqual(["raw", "a"]);
    });

    it("max_attempts: a message that takes its processors with it is given up, and its owner told", async () => {
      await c.begin({ ...SHORT, maxAttempts: 2 });
      await c.submit("poison", 600, { resultQueueName: "owner" });
      await c.claim(1);
      await takenOver(c.startPeer());
      await c.harness.until("given up", 1000, async () => {
        await c.broker.reclaim(NOBODY);
        return (await c.dead()).length > 0;
      });
      expect(await c.claim(1)).toEqual([]);
      expect(await c.results("owner")).toMatchObject([{ id: "poison", errorCode: "INFERENCE_ERROR", statusCode: 0 }]);
      expect((await c.dead())[0]!.entry).toContain('"poison"');
      expect(c.events.dead).toHaveLength(1);
      expect(c.events.dead[0]).toContain("given up after 2 expired leases");
      expect(await c.broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0, dead: 1 });
      // Whoever puts it back means it to be tried again, more than once.
      await c.harness.inspector.requeueDead("q", 1);
      expect((await c.claim(1))[0]!.message.routing.lostLeases).toBe(0);
    });
  });
}
