import { expect, it } from "vitest";
import { LogLines, MemoryQuota, ScriptedRedis } from "../../../test/support/gates/gate-fakes.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { GiveBack, MAX_PENDING, RedisConcurrency, RedisRateLimit } from "./quota-store.ts";

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

async function taken(count: number) {
  const clock = new VirtualClock();
  const store = new MemoryQuota(clock, Number.POSITIVE_INFINITY, 1e12);
  for (let i = 0; i < count; i++) store.sets.set(`k${i % 3}`, store.sets.get(`k${i % 3}`) ?? new Map());
  for (let i = 0; i < count; i++) store.sets.get(`k${i % 3}`)!.set(`m${i}`, 1e12);
  const log = new LogLines();
  const left = () => [...store.sets.values()].reduce((sum, set) => sum + set.size, 0);
  return { clock, store, log, left, giveBack: new GiveBack(store, clock, log) };
}

it("gives back at once, before whoever asks next", async () => {
  const { giveBack, left } = await taken(3);
  giveBack.give("k0", "m0");
  expect(left()).toBe(2);
});

it("never throws, and tries again in few commands until the store answers", async () => {
  const { giveBack, store, clock, log, left } = await taken(30);
  store.failure = { error: new Error("away"), done: false };
  for (let i = 0; i < 30; i++) giveBack.give(`k${i % 3}`, `m${i}`);
  await clock.advanceAsync(20_000);
  expect([left(), giveBack.pending]).toEqual([30, 30]);
  // One line per round, and the rounds grow apart: 0.1, 0.2, 0.4, ... 5 s.
  expect(log.lines.length).toBeLessThan(12);
  store.failure = undefined;
  const before = store.calls;
  await clock.advanceAsync(5_000);
  expect([left(), giveBack.pending, store.calls - before]).toEqual([0, 0, 3]);
});

it("remembers a bounded number of failures, the newest", async () => {
  const { giveBack, store, clock, left } = await taken(MAX_PENDING + 500);
  store.failure = { error: new Error("away"), done: false };
  for (let i = 0; i < MAX_PENDING + 500; i++) {
    giveBack.give(`k${i % 3}`, `m${i}`);
    if (i % 1_000 === 0) await clock.advanceAsync(0);
  }
  await clock.advanceAsync(0);
  expect(giveBack.pending).toBe(MAX_PENDING);
  store.failure = undefined;
  await clock.advanceAsync(10_000);
  expect(left()).toBe(500);
  expect(store.sets.get("k0")!.has("m0")).toBe(true);
});

it("asks no more of a store that neither answers nor fails", async () => {
  const clock = new VirtualClock();
  let asked = 0;
  const silent = {
    reserve: async () => true,
    renew: async () => {},
    giveBack: () => {
      asked++;
      return new Promise<void>(() => {});
    },
    close() {},
  };
  const giveBack = new GiveBack(silent, clock, new LogLines());
  for (let i = 0; i < MAX_PENDING + 10; i++) giveBack.give("k", `m${i}`);
  expect([asked, giveBack.pending]).toEqual([MAX_PENDING, 10]);
});

it("closes within a second, and is quiet then", async () => {
  const clock = new VirtualClock();
  const fail: ((error: Error) => void)[] = [];
  const silent = {
    reserve: async () => true,
    renew: async () => {},
    giveBack: () => new Promise<void>((_, reject) => fail.push(reject)),
    close() {},
  };
  const giveBack = new GiveBack(silent, clock, new LogLines());
  giveBack.give("k", "m");
  let closed = false;
  void giveBack.close().then(() => {
    closed = true;
  });
  await clock.advanceAsync(999);
  expect(closed).toBe(false);
  await clock.advanceAsync(1);
  expect(closed).toBe(true);
  for (const each of fail) each(new Error("the connection was closed"));
  await clock.advanceAsync(0);
  expect(clock.pending).toBe(0);
});
