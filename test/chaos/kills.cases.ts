import { expect } from "vitest";
import { delay } from "../../src/base/clock/clock.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { DispatchProcess, spawnDispatch } from "../support/dispatch-process.ts";
import { openStore, type StoreKind } from "../support/dispatch-store.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { chance, expectOneEach, LEASES, replenish, requestsReach, resultsReach } from "./account.ts";

/** Requests that reach the gateway between two kills, at least and at most. */
const LEAST = 40;
const MOST = 120;
/** Milliseconds after that until the kill, at most: claims, answers and writes are under way all the time. */
const AFTER = 40;
/** Messages that are left at least when a process starts: more than it sends before it is killed on a machine with time. */
const LEFT = 500;

/**
 * Kills the dispatcher `kills` times while it works, starting it again at once, and expects one result for each message.
 * One request in a hundred fails at first, so that retries are written, parked and moved under the kills too.
 */
export async function survivesKills(kind: StoreKind, kills: number): Promise<void> {
  const random = chance(`${kills} kills on ${kind}`);
  const store = await openStore(kind);
  const gateway = await GatewayProcess.start({ delay: 20, failEvery: 100 });
  const options = { transport: store.transport, gateway: gateway.url, workers: 32, leases: LEASES };
  try {
    let count = 0;
    for (let killed = 0; killed < kills; killed++) {
      // However late the last kill came, there is work for the next process.
      count = await replenish(store, count, LEFT);
      const from = (await gateway.stats()).requests;
      const dispatcher = spawnDispatch(options);
      await requestsReach(gateway, from + LEAST + random.below(MOST - LEAST), dispatcher);
      await delay(realClock, random.below(AFTER));
      await dispatcher.stop("SIGKILL");
      expect(dispatcher.exit).toEqual({ code: null, signal: "SIGKILL" });
    }
    const last = await DispatchProcess.start(options);
    await resultsReach(store, count);
    await last.process.stop("SIGTERM");
    expect(last.process.exit).toEqual({ code: 0, signal: null });
    const { statuses } = await expectOneEach(`${kills} SIGKILLs on ${kind}`, store, gateway, count);
    expect(statuses).toEqual({ 200: count });
  } finally {
    await gateway.stop();
    await store.close();
  }
}
