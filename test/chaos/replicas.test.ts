import { describe, expect, it } from "vitest";
import { DispatchProcess } from "../support/dispatch-process.ts";
import { openStore, type StoreKind } from "../support/dispatch-store.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { poll } from "../support/poll.ts";
import { chance, expectOneEach, LEASES, messages, resultsReach, tell } from "./account.ts";

const STORES: readonly StoreKind[] = ["Redis", "SQLite"];

describe("two replicas of one queue", () => {
  it.each(STORES)("the one that lives finishes what the killed one held, on %s (A-44)", async (kind) => {
    const random = chance(`one of two killed on ${kind}`);
    const store = await openStore(kind);
    const gateway = await GatewayProcess.start({ delay: 100 });
    const options = { transport: store.transport, gateway: gateway.url, workers: 16, leases: LEASES };
    const [victim, survivor] = await Promise.all([DispatchProcess.start(options), DispatchProcess.start(options)]);
    try {
      const count = 800;
      await store.submit(messages(count));
      // However late the kill comes, the victim has something in its hands.
      await gateway.answers(650);
      await gateway.reaches(200 + random.below(300));
      const held = "llm_d_async_async_claims_active";
      await poll("the victim to have work", async () => (await victim.metric(held)) > 0);
      await victim.process.stop("SIGKILL");
      await gateway.answers();
      const killed = performance.now();
      await resultsReach(store, count);
      tell(
        `one of two killed on ${kind}: all done ${Math.round(performance.now() - killed)} ms later ` +
          `(lease ${LEASES.claim_ttl_ms}, reclaimed every ${LEASES.reclaim_interval_ms})`,
      );
      // What the victim had in its hands came back by its leases, and by nothing else.
      expect(await survivor.metric("llm_d_async_async_claims_reclaimed_total")).toBeGreaterThan(0);
      await survivor.process.stop("SIGTERM");
      await expectOneEach(`one of two killed on ${kind}`, store, gateway, count);
    } finally {
      await gateway.stop();
      await survivor.process.stop();
      await store.close();
    }
  });

  it.each(STORES)(
    "one that was stopped for longer than its leases writes no second result, on %s (A-45)",
    async (kind) => {
      const store = await openStore(kind);
      const gateway = await GatewayProcess.start({ hold: true });
      const options = { transport: store.transport, gateway: gateway.url, workers: 8, leases: LEASES };
      const stopped = await DispatchProcess.start(options);
      let other: DispatchProcess | undefined;
      try {
        const count = 40;
        await store.submit(messages(count));
        await gateway.reaches(8);
        process.kill(stopped.process.pid, "SIGSTOP");
        // Those eight stay unanswered; whatever comes from now on is answered.
        await gateway.manner({ hold: false });
        other = await DispatchProcess.start(options);
        await resultsReach(store, count);
        await gateway.release();
        process.kill(stopped.process.pid, "SIGCONT");
        const fenced = "llm_d_async_async_results_fenced_total";
        await poll("the late results to be discarded", async () => (await stopped.metric(fenced)) === 8);
        await Promise.all([stopped.process.stop("SIGTERM"), other.process.stop("SIGTERM")]);
        await expectOneEach(`stopped and continued on ${kind}`, store, gateway, count);
        expect((await gateway.stats()).requests).toBe(count + 8);
      } finally {
        await gateway.stop();
        await stopped.process.stop();
        await other?.process.stop();
        await store.close();
      }
    },
  );
});
