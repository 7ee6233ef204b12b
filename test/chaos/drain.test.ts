import { describe, expect, it } from "vitest";
import { DispatchProcess } from "../support/dispatch-process.ts";
import { type DispatchStore, openStore, type StoreKind } from "../support/dispatch-store.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { chance, expectOneEach, replenish, requestsReach, resultsReach } from "./account.ts";

const STORES: readonly StoreKind[] = ["Redis", "SQLite"];
const STOPS = 3;

interface Drain {
  readonly what: string;
  readonly store: DispatchStore;
  readonly gateway: GatewayProcess;
  /** Messages that are left at least when a process starts: more than it sends before it is told to end. */
  readonly least: number;
  readonly args: readonly string[];
}

/** Stops the dispatcher with SIGTERM several times in the middle of the work; leases are of a length that nothing may wait for. */
async function stopSeveralTimes({ what, store, gateway, least, args }: Drain): Promise<void> {
  const random = chance(what);
  const options = { transport: store.transport, gateway: gateway.url, workers: 16, args };
  let count = 0;
  for (let stop = 0; stop < STOPS; stop++) {
    count = await replenish(store, count, least);
    const { requests } = await gateway.stats();
    const dispatcher = await DispatchProcess.start(options);
    await requestsReach(gateway, requests + 16 + random.below(16), dispatcher.process);
    await dispatcher.process.stop("SIGTERM");
    expect(dispatcher.process.exit).toEqual({ code: 0, signal: null });
    // Everything it held is answered or queued again, and nothing is left to a lease.
    expect(await store.leftovers()).toMatchObject({ claimed: 0 });
    expect((await store.leftovers()).waiting + (await store.countResults())).toBe(count);
  }
  await gateway.manner({ delay: 0 });
  const last = await DispatchProcess.start(options);
  await resultsReach(store, count);
  await last.process.stop("SIGTERM");
  await expectOneEach(what, store, gateway, count);
}

describe("SIGTERM", () => {
  it.each(STORES)("lets what was sent end: nothing is sent twice, on %s", async (kind) => {
    const store = await openStore(kind);
    const gateway = await GatewayProcess.start({ delay: 200 });
    try {
      const what = `${STOPS} SIGTERMs with time to drain on ${kind}`;
      await stopSeveralTimes({ what, store, gateway, least: 200, args: [] });
      expect([...(await gateway.sent()).values()].filter((times) => times > 1)).toEqual([]);
    } finally {
      await gateway.stop();
      await store.close();
    }
  });

  it("cuts off what takes longer than the drain time; it is queued again at once", async () => {
    const store = await openStore("Redis");
    const gateway = await GatewayProcess.start({ delay: 1000 });
    try {
      const what = `${STOPS} SIGTERMs without time to drain`;
      await stopSeveralTimes({ what, store, gateway, least: 100, args: ["--drain-timeout", "100ms"] });
    } finally {
      await gateway.stop();
      await store.close();
    }
  });
});
