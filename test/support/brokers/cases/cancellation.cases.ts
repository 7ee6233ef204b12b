import { describe, expect, it } from "vitest";
import type { Claim } from "../../../../src/async/brokers/broker.ts";
import { errorResult } from "../../../../src/async/brokers/messages/result.ts";
import { answered, type CaseContext, NOBODY, refused, SHORT } from "./context.cases.ts";

/** Marks to cancel a submission. */
export function cancellationCases(c: CaseContext): void {
  describe("cancellation (A-38)", () => {
    it("before the claim: the claim says so", async () => {
      await c.begin();
      await c.submit("a", 300);
      await c.submit("b", 600);
      await c.producer.cancelRequests(["a", "unknown", ""]);
      const claims = await c.claim(2);
      expect(claims.map(({ cancelled }) => cancelled)).toEqual([true, false]);
      expect(await c.broker.cancelled(claims)).toEqual([true, false]);
    });

    it("after the claim: asking tells", async () => {
      await c.begin();
      await c.submit("a");
      const claims = await c.claim(1);
      expect(await c.broker.cancelled(claims)).toEqual([false]);
      await c.producer.cancelRequests(["a"]);
      expect(claims[0]!.cancelled).toBe(false);
      expect(await c.broker.cancelled(claims)).toEqual([true]);
    });

    it("while a retry is parked: it comes back marked, and once it has its result nothing is left", async () => {
      await c.begin();
      await c.submit("a");
      const [a] = await c.claim(1);
      await c.broker.settle([await c.retried(a!, -1)]);
      await c.producer.cancelRequests(["a"]);
      await c.broker.moveDue();
      const [again] = await c.claim(1);
      expect(again!.cancelled).toBe(true);
      await c.broker.settle([{ kind: "result", claim: again!, result: errorResult("a", "CANCELLED", "cancelled") }]);
      expect((await c.results()).map(({ errorCode }) => errorCode)).toEqual(["CANCELLED"]);
      await c.producer.cancelRequests(["a"]);
      await c.submit("a");
      expect((await c.claim(1))[0]!.cancelled).toBe(false);
    });

    it("after a refusal and after a lost lease the mark is still there", async () => {
      await c.begin(SHORT);
      await c.submit("a");
      await c.producer.cancelRequests(["a"]);
      await c.broker.settle((await c.claim(1)).map(refused));
      expect((await c.claim(1))[0]!.cancelled).toBe(true);
      const peer = c.startPeer();
      const got: Claim[] = [];
      await c.harness.until("the lease ran out", 1000, async () => {
        await peer.reclaim(NOBODY);
        got.push(...(await c.claim(1, peer)));
        return got.length > 0;
      });
      expect(got[0]!.cancelled).toBe(true);
    });

    it("an id submitted again is not hit by the old cancellation", async () => {
      await c.begin();
      await c.submit("a");
      await c.producer.cancelRequests(["a"]);
      await c.broker.settle((await c.claim(1)).map(answered));
      await c.submit("a");
      expect((await c.claim(1))[0]!.cancelled).toBe(false);
    });

    it("the result of an older submission does not take the mark from a newer one", async () => {
      await c.begin();
      await c.submit("a");
      const [old] = await c.claim(1);
      await c.submit("a");
      await c.producer.cancelRequests(["a"]);
      expect(await c.broker.settle([answered(old!)])).toEqual(["settled"]);
      expect((await c.claim(1))[0]!.cancelled).toBe(true);
    });
  });
}
