import { describe, expect, it } from "vitest";
import type { Settlement } from "../../../../src/async/brokers/broker.ts";
import { answered, type CaseContext, ids, LONG, NOBODY, ok, Q, refused, SHORT } from "./context.cases.ts";

/** A store that loses everything while messages are in hand: what is in hand is kept. */
export function dataLossCases(c: CaseContext): void {
  describe("a store that loses everything", () => {
    it("takes the results of what was in hand, and each says that it was recovered", async () => {
      await c.begin();
      for (const id of ["a", "b", "c"]) await c.submit(id);
      const claims = await c.claim(3);
      expect(await c.broker.settle([answered(claims[0]!)])).toEqual(["settled"]);
      await c.harness.wipe();
      const rest = claims.slice(1).map(answered);
      expect(await c.broker.settle(rest)).toEqual(["recovered", "recovered"]);
      const results = await c.results();
      expect(results.map(({ id, recovered }) => [id, recovered])).toEqual([
        ["b", true],
        ["c", true],
      ]);
      expect(c.events.forgottenCount).toBe(2);
      expect(await c.broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0 });
      // Whatever is sent again: they are settled.
      expect(await c.broker.settle(rest)).toEqual(["fenced", "fenced"]);
      expect(await c.results()).toHaveLength(2);
    });

    it("takes retries, refusals and dead letters of what was in hand", async () => {
      await c.begin();
      for (const id of ["retried", "refused", "dead"]) await c.submit(id);
      const [dead, again, back] = [...(await c.claim(3))].sort((x, y) =>
        x.message.request.id < y.message.request.id ? -1 : 1,
      );
      await c.harness.wipe();
      const buried: Settlement = { kind: "dead", claim: dead!, reason: "no use", result: ok("dead") };
      const outcomes = await c.broker.settle([
        await c.retried(again!.message.request.id === "retried" ? again! : back!, 300),
        buried,
        refused(again!.message.request.id === "refused" ? again! : back!),
      ]);
      expect(outcomes).toEqual(["recovered", "recovered", "recovered"]);
      expect(await c.broker.backlog(Q)).toMatchObject({ waiting: 1, claimed: 0, retries: 1, dead: 1 });
      expect((await c.results()).map(({ id }) => id)).toEqual(["dead"]);
      expect((await c.dead())[0]).toMatchObject({ reason: "no use" });
      const [claimed] = await c.claim(5);
      expect(claimed!.message.request.id).toBe("refused");
      expect(await c.broker.settle([answered(claimed!)])).toEqual(["settled"]);
    });

    it("a lease that is renewed is held in the store again, and nobody has lost it", async () => {
      await c.begin();
      await c.submit("a");
      const [a] = await c.claim(1);
      await c.harness.wipe();
      expect(await c.broker.renew([a!])).toEqual([]);
      expect(a!.lost).toBe(false);
      const peer = c.startPeer();
      await peer.reclaim(NOBODY);
      expect(await c.claim(1, peer)).toEqual([]);
      expect(await c.broker.settle([answered(a!)])).toEqual(["recovered"]);
      expect((await c.results()).map(({ id }) => id)).toEqual(["a"]);
    });

    it("a process that dies after that still leaves its message to another", async () => {
      await c.begin(SHORT);
      await c.submit("a");
      const [a] = await c.claim(1);
      await c.harness.wipe();
      await c.broker.renew([a!]);
      const peer = c.startPeer();
      const got: string[] = [];
      await c.harness.until("the lease ran out", 1000, async () => {
        await peer.reclaim(NOBODY);
        got.push(...ids(await c.claim(1, peer)));
        return got.length > 0;
      });
      expect(got).toEqual(["a"]);
      // Whoever has it now counts.
      expect(await c.broker.renew([a!])).toEqual([a]);
      expect(await c.broker.settle([answered(a!)])).toEqual(["fenced"]);
      expect(await c.results()).toEqual([]);
    });

    it("goes on: what is submitted and claimed later is like ever, and old claims keep their ways", async () => {
      await c.begin();
      await c.submit("old");
      const [old] = await c.claim(1);
      await c.harness.wipe();
      await c.submit("new");
      const [fresh] = await c.claim(1);
      expect(ids([fresh!])).toEqual(["new"]);
      await c.submit("taken");
      c.leaseFor(SHORT.claimTtl);
      const [late] = await c.claim(1);
      c.leaseFor(LONG.claimTtl);
      const peer = c.startPeer();
      await c.harness.until("the lease ran out", 1000, async () => {
        await c.broker.renew([fresh!]);
        await peer.reclaim(NOBODY);
        return (await c.claim(1, peer)).length > 0;
      });
      expect(await c.broker.settle([answered(old!), answered(fresh!), answered(late!)])).toEqual([
        "recovered",
        "settled",
        "fenced",
      ]);
    });

    it("loses everything twice, and still takes the result", async () => {
      await c.begin();
      await c.submit("a");
      const [a] = await c.claim(1);
      await c.harness.wipe();
      await c.broker.renew([a!]);
      await c.harness.wipe();
      expect(await c.broker.settle([answered(a!)])).toEqual(["recovered"]);
      expect(await c.results()).toHaveLength(1);
    });
  });
}
