import { expect, it } from "vitest";
import { ScriptedRedis } from "../../../test/support/gates/gate-fakes.cases.ts";
import { RedisConcurrency, RedisRateLimit } from "./redis-quota-store.ts";

// What the scripts do is shown on a real server: test/redis/gates.test.ts.

it("makes one round trip per message, and tells the server's yes from its no", async () => {
  const redis = new ScriptedRedis();
  const store = new RedisRateLimit(redis, 5, 60_000);
  redis.reply = 1;
  expect(await store.reserve("quota:userid:alice", "m1")).toBe(true);
  redis.reply = 0;
  expect(await store.reserve("quota:userid:alice", "m2")).toBe(false);
  expect(redis.sent.length).toBe(2);
});

it("fails when no connection comes, instead of letting through or queueing up", async () => {
  const redis = new ScriptedRedis();
  redis.ready = false;
  await expect(new RedisConcurrency(redis, 5, 60_000).reserve("k", "m")).rejects.toThrow("not connected");
  expect(redis.sent).toEqual([]);
});

it("gives back and renews many places in few commands of bounded size", async () => {
  const redis = new ScriptedRedis();
  const store = new RedisConcurrency(redis, 5_000, 60_000);
  const members = Array.from({ length: 2_500 }, (_, i) => `m${i}`);
  await store.giveBack("k", members);
  expect(redis.sent.map((args) => [args[0], args.length - 2])).toEqual([
    ["ZREM", 1_000],
    ["ZREM", 1_000],
    ["ZREM", 500],
  ]);
  expect(redis.sent.flatMap((args) => args.slice(2))).toEqual(members);
  redis.sent = [];
  await store.renew("k", members);
  expect(redis.sent.length).toBe(3);
});
