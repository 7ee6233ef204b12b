import { submission } from "../../src/async/brokers/messages/submission.ts";
import type { RedisStore } from "../../test/support/dispatch-store.ts";
import { latencies, type Spread, spread, submitStamped } from "./latency.ts";
import { inSeconds, pause, requests, resultsOf, withRig } from "./rig.ts";

const STEP = 500;

/** Writes entries as a producer has written them some time ago. */
async function addEntries(
  { redis }: RedisStore,
  key: string,
  count: number,
  { deadline, score, prefix }: { deadline: number; score: number; prefix: string },
): Promise<void> {
  const names = { requestQueueName: "q", resultQueueName: "results", now: inSeconds(-7200), token: "" };
  const all = requests(count, 256, prefix).map((request) => submission({ ...request, deadline }, names).envelope);
  for (let at = 0; at < all.length; at += STEP)
    await redis.send(["ZADD", key, ...all.slice(at, at + STEP).flatMap((entry) => [String(score), entry])]);
}

export interface ExpiryFigures {
  /** Until the last of them has its result. */
  readonly seconds: number;
  /** Of messages that came meanwhile, milliseconds from enqueue to dispatch. */
  readonly live: Spread;
}

/** Expired entries turn up at once in front of live traffic (P-9). */
export function measureExpired(count: number): Promise<ExpiryFigures> {
  return withRig("Redis", async ({ store, gateway, start }) => {
    const redis = store as RedisStore;
    await start();
    await store.submit(requests(2000, 256, "warm"));
    await resultsOf(store, 2000);
    const deadline = inSeconds(-3600);
    await addEntries(redis, "expired", count, { deadline, score: deadline, prefix: "e" });
    await gateway.manner({ arrivals: true });
    await gateway.reset();
    const started = performance.now();
    await redis.redis.send(["ZUNIONSTORE", "q", "2", "q", "expired"]);
    let seconds = Number.NaN;
    let live = 0;
    while (Number.isNaN(seconds)) {
      await submitStamped(store, 1, live++);
      await pause(5);
      if ((await store.countResults()) >= 2000 + count) seconds = (performance.now() - started) / 1000;
      if (performance.now() - started > 60_000) throw new Error("expired entries have no results after 60 s");
    }
    await gateway.reaches(live);
    return { seconds, live: spread(latencies((await gateway.stats()).arrivals, "t")) };
  });
}

/** Seconds until parked retries that are due together have all been sent again. */
export function measureRetries(count: number): Promise<number> {
  return withRig("Redis", async ({ store, gateway, start }) => {
    await start();
    await store.submit(requests(2000, 256, "warm"));
    await resultsOf(store, 2000);
    await gateway.reset();
    const deadline = inSeconds(3600);
    const redis = store as RedisStore;
    await addEntries(redis, "parked", count, { deadline, score: inSeconds(-1), prefix: "p" });
    const started = performance.now();
    await redis.redis.send(["RENAME", "parked", "retries"]);
    await gateway.reaches(count);
    return (performance.now() - started) / 1000;
  });
}
