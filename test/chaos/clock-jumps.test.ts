import { describe, expect, it } from "vitest";
import type { Broker } from "../../src/async/brokers/broker.ts";
import { redisSortedSetBroker } from "../../src/async/brokers/redis-sortedset/broker.ts";
import type { LeaseSettings, QueueSettings } from "../../src/async/brokers/settings.ts";
import { sqliteBroker } from "../../src/async/brokers/sqlite/broker.ts";
import { Dispatcher } from "../../src/async/dispatch/dispatcher.ts";
import { mergePolicy } from "../../src/async/dispatch/merge/policy-file.ts";
import { undiciClient } from "../../src/async/dispatch/send/undici-client.ts";
import { requestTransforms } from "../../src/async/dispatch/transforms/transforms-file.ts";
import { OPEN_GATE } from "../../src/async/gates/factory.ts";
import type { Clock } from "../../src/base/clock/clock.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { createDispatchMetrics } from "../../src/base/telemetry/dispatch-metrics.ts";
import type { Logger } from "../../src/base/telemetry/logger.ts";
import { MetricsRegistry } from "../../src/base/telemetry/registry.ts";
import { RedisStore, SqliteStore, type StoreKind } from "../support/dispatch-store.ts";
import { LogLines } from "../support/gates/gate-fakes.cases.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { chance, expectOneEach, messages, resultsReach } from "./account.ts";
import { JumpingClock } from "./jumping-clock.ts";

/** Looked at more often than a request takes: each jump meets leases that are held. They outlive a test process that stands still. */
const LEASES: LeaseSettings = { claimTtl: 10_000, reclaimInterval: 20, maxAttempts: 0 };
const HOUR = 3_600_000;
const JUMPS = 8;
const WORKERS = 16;

const random = new SeededRandom(5);

function brokerOn(store: RedisStore | SqliteStore, queue: QueueSettings, clock: Clock, log: Logger): Broker {
  const deps = { clock, random, log };
  const common = {
    queues: [queue],
    resultQueueName: "results",
    pollInterval: 1000,
    batchCap: undefined,
    leases: LEASES,
  };
  if (store instanceof SqliteStore) return sqliteBroker({ ...common, transport: "sqlite", path: store.path }, deps);
  const redis = { url: store.server.url, tls: {}, enableTracing: false };
  return redisSortedSetBroker({ ...common, transport: "redis-sortedset", redis, retryQueueName: "retries" }, deps);
}

function dispatcherOn(broker: Broker, queue: QueueSettings, clock: Clock, log: Logger): { stop(): Promise<void> } {
  const client = undiciClient({ totalWorkers: WORKERS, clock });
  const dispatcher = new Dispatcher({
    ...{ broker, clock, random, client, log },
    queues: [queue],
    pools: [{ id: "default", workers: WORKERS, gate: undefined }],
    leases: LEASES,
    pollInterval: 1000,
    batchCap: undefined,
    replicas: 1,
    requestTimeout: 60_000,
    deadlineHeader: undefined,
    transforms: requestTransforms(undefined, random),
    mergePolicy: mergePolicy(undefined, random),
    gate: () => OPEN_GATE,
    metrics: createDispatchMetrics(new MetricsRegistry()),
  });
  dispatcher.start();
  return {
    async stop() {
      await dispatcher.stop(10_000);
      await client.close();
      await broker.close();
    },
  };
}

describe("a wall clock that jumps by hours in both directions", () => {
  it.each<StoreKind>(["Redis", "SQLite"])("costs no message its one result on %s (H-45)", async (kind) => {
    const chances = chance(`${JUMPS} clock jumps on ${kind}`);
    const store = kind === "Redis" ? await RedisStore.start() : await SqliteStore.start();
    const gateway = await GatewayProcess.start({ delay: 50, failEvery: 50 });
    const clock = new JumpingClock();
    const queue: QueueSettings = {
      ...{ id: "q", name: "q", workerPoolId: "default", inferenceObjective: "", igwBaseUrl: gateway.url },
      ...{ requestPathUrl: "/v1/completions", labels: {}, gate: undefined, resultQueueName: undefined },
      ...{ trustMessageLabels: true, allowedEndpoints: undefined, maxQueueShare: 1 },
    };
    const log = new LogLines();
    const dispatcher = dispatcherOn(brokerOn(store, queue, clock, log), queue, clock, log);
    try {
      const count = 1000;
      await store.submit(messages(count, 30 * 24 * 3600));
      for (let jump = 0; jump < JUMPS; jump++) {
        await gateway.reaches((await gateway.stats()).requests + 20 + chances.below(60));
        clock.ahead = Math.round((chances.next() - 0.5) * 48 * HOUR);
      }
      // Somebody has mended the clock.
      clock.ahead = 0;
      await resultsReach(store, count);
      await dispatcher.stop();
      const { statuses } = await expectOneEach(`${JUMPS} clock jumps on ${kind}`, store, gateway, count);
      expect(statuses).toEqual({ 200: count });
      // No lease runs out: on Redis since its own clock is the only one that counts, on SQLite since the jump is noticed.
      expect((await gateway.stats()).requests).toBe(count + count / 50);
      expect(log.lines.filter(({ message }) => message.includes("this process lost leases"))).toEqual([]);
    } finally {
      await gateway.stop();
      await store.close();
    }
  });
});
