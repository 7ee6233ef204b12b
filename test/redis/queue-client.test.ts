import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { redisQueueClient } from "../../src/async/brokers/redis-sortedset/queue-client.ts";
import type { Redis } from "../../src/base/redis/connection.ts";
import { queueClientCases } from "../support/brokers/queue-client.cases.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import { at, deps, direct, settingsOf, started } from "./setup.ts";

let server: RunningRedis;
let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = await direct(server.url);
});

afterAll(async () => {
  redis?.close();
  await server?.stop();
});

queueClientCases("redis-sortedset", async () => {
  await redis.send(["FLUSHALL"]);
  const client = await redisQueueClient(at(server.url), "retries", deps);
  const { broker } = await started(settingsOf(server.url));
  return {
    ...{ client, broker },
    injectResult: async (queueName, entry) => void (await redis.send(["LPUSH", queueName, entry])),
    async close() {
      client.close();
      await broker.close();
    },
  };
});

describe("the client of a Redis server", () => {
  it("a removal that is repeated takes nothing that was not read", async () => {
    await redis.send(["FLUSHALL"]);
    const client = await redisQueueClient(at(server.url), "retries", deps);
    const inbox = client.inbox("r");
    await redis.send(["LPUSH", "r", "a", "b", "c"]);
    expect(await inbox.read(2)).toEqual(["a", "b"]);
    // As if the answer to the first removal had been lost.
    await redis.send(["RPOP", "r", "2"]);
    await inbox.remove();
    expect(await inbox.read(5)).toEqual(["c"]);
    client.close();
  });

  it("says within some seconds that a server is away", async () => {
    const away = redisQueueClient(at("redis://127.0.0.1:1"), "retries", deps);
    await expect(away).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
  });
});
