import { expect } from "vitest";
import { delay } from "../../src/base/clock/clock.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { DispatchProcess } from "../support/dispatch-process.ts";
import { openStore, RedisStore, type StoreKind } from "../support/dispatch-store.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { fixedLimit } from "../support/slowness.ts";
import { chance, expectOneEach, LEASES, messages, replenish, requestsReach, resultsReach, tell } from "./account.ts";

/** Messages that are left at least when an outage is prepared: more than come before it. */
const LEFT = 600;

/**
 * Kills Redis in the middle of the work, once per outage, and starts it again after so many milliseconds.
 * @param outages each at least as long as the server takes to start
 */
export async function survivesRedis(outages: readonly number[]): Promise<void> {
  const what = `Redis killed, down for ${outages.join(", ")} ms`;
  const random = chance(what);
  const store = await RedisStore.start();
  const gateway = await GatewayProcess.start({ delay: 50 });
  const options = { transport: store.transport, gateway: gateway.url, workers: 32, leases: LEASES };
  const dispatcher = await DispatchProcess.start(options);
  try {
    let count = 0;
    for (const outage of outages) {
      count = await replenish(store, count, LEFT);
      const { requests } = await gateway.stats();
      // However late the server is killed, requests are under way.
      await gateway.answers(requests + 400);
      await requestsReach(gateway, requests + 100 + random.below(200), dispatcher.process);
      await store.server.kill();
      await gateway.answers();
      await delay(realClock, outage);
      await store.server.restart();
      await store.redis.whenReady(fixedLimit(10_000));
    }
    count = await replenish(store, count, LEFT);
    await resultsReach(store, count);
    expect(dispatcher.process.exit).toBeUndefined();
    await dispatcher.process.stop("SIGTERM");
    const { statuses } = await expectOneEach(what, store, gateway, count);
    expect(statuses).toEqual({ 200: count });
  } finally {
    await gateway.stop();
    await dispatcher.process.stop();
    await store.close();
  }
}

/** Closes the gateway's port in the middle of the work, for so many milliseconds: that costs attempts, and no result. */
export async function survivesGateway(kind: StoreKind, outage: number): Promise<void> {
  const what = `gateway down for ${outage} ms on ${kind}`;
  const store = await openStore(kind);
  const gateway = await GatewayProcess.start({ delay: 50 });
  const options = { transport: store.transport, gateway: gateway.url, workers: 32, leases: LEASES };
  const dispatcher = await DispatchProcess.start(options);
  try {
    const count = 1000;
    // A deadline that is still ahead when the outage is over; a message that missed it would end with another status.
    await store.submit(messages(count, outage / 1000 + 1200));
    // However late the outage is, there is work that meets it.
    await gateway.answers(600);
    await requestsReach(gateway, 300, dispatcher.process);
    await gateway.closePort();
    await delay(realClock, outage);
    await gateway.openPort();
    await gateway.answers();
    await resultsReach(store, count, outage + 100_000);
    const retries = await dispatcher.metric("llm_d_async_async_request_retries_total");
    tell(`${what}: ${retries} attempts came to nothing`);
    expect(retries).toBeGreaterThan(0);
    await dispatcher.process.stop("SIGTERM");
    const { statuses } = await expectOneEach(what, store, gateway, count);
    expect(statuses).toEqual({ 200: count });
  } finally {
    await gateway.stop();
    await dispatcher.process.stop();
    await store.close();
  }
}
