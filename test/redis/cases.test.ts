import { afterAll, beforeAll, vi } from "vitest";
import type { Broker } from "../../src/async/brokers/broker.ts";
import type { Producer } from "../../src/async/brokers/queue-client.ts";
import { redisSortedSetBroker } from "../../src/async/brokers/redis-sortedset/broker.ts";
import { redisQueueInspector } from "../../src/async/brokers/redis-sortedset/inspector.ts";
import { redisProducer } from "../../src/async/brokers/redis-sortedset/producer.ts";
import type { RedisSortedSetSettings } from "../../src/async/brokers/settings.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { connectRedis } from "../../src/base/redis/connection.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { brokerCases } from "../support/brokers/broker.cases.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import { fixedLimit } from "../support/slowness.ts";
import { clockAhead, setAhead } from "./server-clock.ts";

vi.mock(import("../../src/base/redis/script.ts"), async (original) => {
  const { scriptsOnAClockAhead } = await import("./server-clock.ts");
  return scriptsOnAClockAhead(await original());
});

let server: RunningRedis;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(() => server?.stop());

brokerCases("redis-sortedset", async (settings) => {
  const deps = { clock: realClock, random: new SeededRandom(1), log: silentLogger };
  const connection = { url: server.url, tls: {}, enableTracing: false };
  const redis = connectRedis(connection, deps);
  await redis.whenReady(fixedLimit(5000));
  const ahead = (): Promise<number> => clockAhead((command) => redis.send(command));
  const set = (ms: number): Promise<void> => setAhead((command) => redis.send(command), ms);
  await redis.send(["FLUSHALL"]);
  const inspector = await redisQueueInspector(connection, deps);
  const all: RedisSortedSetSettings = {
    ...settings,
    transport: "redis-sortedset",
    redis: connection,
    retryQueueName: "retries",
    batchCap: undefined,
  };
  return {
    broker: reached(redisSortedSetBroker(all, deps)),
    peer: () => reached(redisSortedSetBroker(all, deps)),
    producer: (requestQueueName, resultQueueName) =>
      once(redisProducer({ client: redis, requestQueueName, resultQueueName }, deps)),
    inspector,
    async inject(queueName, entry, score) {
      await redis.send(["ZADD", queueName, String(score), entry]);
    },
    async injectResult(queueName, entry) {
      await redis.send(["LPUSH", queueName, entry]);
    },
    async results(queueName) {
      return ((await redis.send(["LRANGE", queueName, "0", "-1"])) as string[]).toReversed();
    },
    async wipe() {
      const kept = await ahead();
      await redis.send(["FLUSHALL"]);
      await set(kept);
    },
    async now() {
      const [seconds, micros] = (await redis.send(["TIME"])) as string[];
      return Number(seconds) * 1000 + Number(micros) / 1000 + (await ahead());
    },
    async setClock(ms) {
      await set((await ahead()) + ms);
    },
    until: (what, ms, probe) => poll(what, probe, ms + 10_000).then(() => undefined),
    async close() {
      inspector.close();
      redis.close();
    },
  };
});

/** What is called before the first connection stands waits for it. */
function reached(broker: Broker): Broker {
  return new Proxy(broker, {
    get(target, name) {
      const method = Reflect.get(target, name).bind(target);
      if (name === "start" || name === "close" || name === "check") return method;
      return async (...args: unknown[]) => {
        await poll("the broker to be reached", () => target.check().then(() => true));
        return method(...args);
      };
    },
  });
}

function once(made: Promise<Producer>): Producer {
  return new Proxy({} as Producer, {
    get:
      (_, name) =>
      async (...args: unknown[]) => {
        const producer = await made;
        return Reflect.get(producer, name).apply(producer, args);
      },
  });
}
