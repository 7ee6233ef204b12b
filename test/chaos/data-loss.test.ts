import { rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it, type TestContext } from "vitest";
import { parseResult } from "../../src/async/brokers/messages/result.ts";
import { sqliteProducer } from "../../src/async/brokers/sqlite/producer.ts";
import type { Redis } from "../../src/base/redis/connection.ts";
import { deps, direct, producerOn } from "../redis/setup.ts";
import { DispatchProcess, type DispatchTransport } from "../support/dispatch-process.ts";
import { SqliteStore } from "../support/dispatch-store.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { poll } from "../support/poll.ts";
import { type RedisOptions, type RunningRedis, startRedis } from "../support/redis.ts";
import { RedisPair } from "../support/redis-pair.ts";
import { messages, tell } from "./account.ts";

/** Requests in flight when the store forgets. */
const WORKERS = 64;

/** Ends what a test has begun, the latest first. */
function cleanup({ onTestFinished }: TestContext) {
  const ends: (() => Promise<unknown> | unknown)[] = [];
  onTestFinished(async () => {
    for (const end of ends.reverse()) await end();
  });
  return <T>(part: T, end: (part: T) => Promise<unknown> | unknown): T => {
    ends.push(() => end(part));
    return part;
  };
}

const transportOf = (url: string): DispatchTransport => ({
  name: "redis-sortedset",
  config: { url, result_queue_name: "results", retry_queue_name: "retries" },
});

async function started(
  ending: ReturnType<typeof cleanup>,
  transport: DispatchTransport,
): Promise<{ gateway: GatewayProcess; dispatcher: DispatchProcess }> {
  const gateway = ending(await GatewayProcess.start({ hold: true }), (each) => each.stop());
  const dispatcher = ending(
    await DispatchProcess.start({ transport, gateway: gateway.url, workers: WORKERS }),
    ({ process }) => process.stop(),
  );
  return { gateway, dispatcher };
}

async function redisServer(ending: ReturnType<typeof cleanup>, options: RedisOptions): Promise<RunningRedis> {
  return ending(await startRedis(options), (each) => each.stop());
}

async function submit(url: string, count: number): Promise<void> {
  const redis = await direct(url);
  await (await producerOn(redis)).submitRequests(messages(count));
  redis.close();
}

async function resultsOf(redis: Redis): Promise<{ id: string; recovered: boolean }[]> {
  const texts = (await redis.send(["LRANGE", "results", "0", "-1"])) as string[];
  return texts.map((text) => {
    const { id, statusCode, recovered = false } = parseResult(text);
    expect(statusCode).toBe(200);
    return { id, recovered };
  });
}

/** One line for all that is forgotten; another one where the machine stood still between the first look and a later one. */
function expectToldInSum({ process }: DispatchProcess): void {
  const lines = process.stderr.match(/the store has lost data/g) ?? [];
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.length).toBeLessThan(4);
}

/** Lets the gateway answer, and expects `count` results in a server: one for each message. */
async function expectResults(
  what: string,
  { gateway, dispatcher }: { gateway: GatewayProcess; dispatcher: DispatchProcess },
  url: string,
  count: number,
): Promise<void> {
  const redis = await direct(url);
  try {
    await gateway.manner({ hold: false });
    await gateway.release();
    await poll(`${count} results`, async () => ((await redis.send(["LLEN", "results"])) as number) >= count, 60_000);
    const results = await resultsOf(redis);
    const recovered = results.filter((result) => result.recovered).length;
    tell(`${what}: ${results.length} results, ${recovered} of them recovered`);
    expect(new Set(results.map(({ id }) => id)).size).toBe(count);
    expect(results).toHaveLength(count);
    expect(recovered).toBe(WORKERS);
    expect(await dispatcher.metric("llm_d_async_async_results_recovered_total")).toBe(WORKERS);
    expect(await dispatcher.metric("llm_d_async_async_results_fenced_total")).toBe(0);
    await dispatcher.process.stop("SIGTERM");
    expect(dispatcher.process.exit).toEqual({ code: 0, signal: null });
    expectToldInSum(dispatcher);
    expect(await redis.send(["HLEN", "{q}:claims"])).toBe(0);
  } finally {
    redis.close();
  }
}

describe("a dispatcher with 64 requests in flight", () => {
  it("loses none of their answers when Redis is flushed", async (context) => {
    const ending = cleanup(context);
    const server = await redisServer(ending, {});
    await submit(server.url, WORKERS);
    const running = await started(ending, transportOf(server.url));
    await running.gateway.reaches(WORKERS);
    const redis = await direct(server.url);
    await redis.send(["FLUSHALL"]);
    redis.close();
    await expectResults("FLUSHALL", running, server.url, WORKERS);
  });

  it("delivers all of them when a Redis without persistence is killed and starts empty", async (context) => {
    const ending = cleanup(context);
    const server = await redisServer(ending, {});
    await submit(server.url, WORKERS);
    const running = await started(ending, transportOf(server.url));
    await running.gateway.reaches(WORKERS);
    await server.kill();
    await server.restart();
    await expectResults("killed without AOF", running, server.url, WORKERS);
  });

  it.each(["everysec", "no"])(
    "keeps everything when Redis is killed with appendfsync %s: the system has what was written",
    async (fsync) => {
      const server = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", fsync] });
      try {
        await submit(server.url, 100);
        const redis = await direct(server.url);
        await redis.send(["ZPOPMIN", "q", "10"]);
        // With everysec Redis holds writes back, for two seconds at most, while the disk has not done the fsync before.
        await poll("all to be written", async () =>
          /^aof_buffer_length:0\r$/m.test(String(await redis.send(["INFO", "persistence"]))),
        );
        redis.close();
        await server.kill();
        await server.restart();
        const after = await direct(server.url);
        expect(await after.send(["ZCARD", "q"])).toBe(90);
        after.close();
      } finally {
        await server.stop();
      }
    },
  );

  it("has one result for each message when a replica that lagged is promoted", async (context) => {
    const ending = cleanup(context);
    const ask = async (url: string, ...command: string[]): Promise<unknown> => {
      const redis = await direct(url);
      try {
        return await redis.send(command);
      } finally {
        redis.close();
      }
    };
    const pair = ending(await RedisPair.start(ask), (each) => each.stop());
    const count = 2 * WORKERS;
    await submit(pair.primary.url, count);
    await pair.inStep();
    // The replica has all of the messages, and hears of no claim.
    pair.lag();
    const running = await started(ending, transportOf(pair.url));
    await running.gateway.reaches(WORKERS);
    await pair.failOver();
    await expectResults("a lagging replica promoted", running, pair.replica.url, count);
    const sent = await running.gateway.sent();
    expect(Math.max(...sent.values())).toBe(1);
  });

  it("writes their answers to the new file when a queue file is deleted", async (context) => {
    const ending = cleanup(context);
    const store = ending(await SqliteStore.start(), (each) => each.close());
    await store.submit(messages(WORKERS));
    const { gateway, dispatcher } = await started(ending, store.transport);
    await gateway.reaches(WORKERS);
    for (const end of ["", "-wal", "-shm"]) rmSync(store.path + end, { force: true });
    await gateway.manner({ hold: false });
    await gateway.release();
    await poll(
      "all results",
      async () => (await dispatcher.metric("llm_d_async_async_results_recovered_total")) === WORKERS,
      60_000,
    );
    const names = { requestQueueName: "q", resultQueueName: "results" };
    const reader = sqliteProducer({ path: store.path, ...names }, deps);
    expect(await reader.resultQueueDepth()).toBe(WORKERS);
    await reader.close();
    const file = new DatabaseSync(store.path, { readOnly: true, timeout: 5000 });
    const bodies = file.prepare("SELECT body FROM results").all();
    file.close();
    expect(new Set(bodies.map(({ body }) => parseResult(String(body)).id)).size).toBe(WORKERS);
    await dispatcher.process.stop("SIGTERM");
    expectToldInSum(dispatcher);
  });
});
