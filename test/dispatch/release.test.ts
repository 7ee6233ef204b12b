import { afterEach, describe, expect, it } from "vitest";
import { envelope, inSeconds } from "../redis/setup.ts";
import type { RedisStore } from "../support/dispatch-store.ts";
import { poll } from "../support/poll.ts";
import { Desk } from "./setup.ts";

// What a dispatcher has taken goes back to where a processor without leases finds it: the reference's takes the first entry of
// the sorted set, and knows no other key.

let desk: Desk;
afterEach(() => desk.close());

const TOTAL = 60;
/** What the dispatcher of a desk sends at a time. */
const WORKERS = 16;
const ids = Array.from({ length: TOTAL }, (_, i) => `m${i}`);

/** Entries as a producer in another language writes them, with spaces and all. */
const entryOf = (id: string, at: number, internal: object = {}): string =>
  envelope({ request_token: `t-${id}`, ...internal }, { id, deadline: at, payload: { prompt: ` "${id}" `, n: 1.0 } });

type Stored = readonly string[];

async function fill({ redis }: RedisStore): Promise<Stored> {
  const deadline = inSeconds(3600);
  await redis.send(["ZADD", "q", ...ids.flatMap((id, i) => [String(deadline + i), entryOf(id, deadline + i)])]);
  return stored(desk.store as RedisStore);
}

/** The queue, its entries and scores as they stand. */
const stored = async ({ redis }: RedisStore): Promise<Stored> =>
  ((await redis.send(["ZRANGE", "q", "0", "-1", "WITHSCORES"])) as readonly unknown[]).flat().map(String);

/** Takes everything as the reference's processor does, until nothing is left. */
async function popAll({ redis }: RedisStore): Promise<string[]> {
  const found: string[] = [];
  for (;;) {
    const [entry] = ((await redis.send(["ZPOPMIN", "q", "1"])) as readonly unknown[]).flat();
    if (entry === undefined) return found;
    found.push((JSON.parse(String(entry)) as { data: { id: string } }).data.id);
  }
}

const claimed = ({ redis }: RedisStore): Promise<number> => redis.send(["HLEN", "{q}:claims"]) as Promise<number>;

describe("sluice queue release on Redis", () => {
  it("after SIGKILL, once the leases have ended: every message is back, byte for byte and once", async () => {
    desk = await Desk.open("Redis", { claim_ttl_ms: 2000 });
    const store = desk.store as RedisStore;
    const before = await fill(store);
    await desk.gateway.answers(0);
    const dispatcher = await desk.dispatch();
    await desk.gateway.reaches(WORKERS);
    await dispatcher.stop("SIGKILL");
    expect(await claimed(store)).toBeGreaterThanOrEqual(WORKERS);
    const { code, stderr } = await desk.run("queue release", "q");
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/queue q: \d+ claimed messages? and 0 retries/),
    });
    expect(await stored(store)).toEqual(before);
    expect(await claimed(store)).toBe(0);
    expect((await popAll(store)).sort()).toEqual([...ids].sort());
    expect(await store.countResults()).toBe(0);
  });

  it("refuses while a dispatcher runs, also one that has nothing to do, and then takes nothing", async () => {
    desk = await Desk.open("Redis");
    const store = desk.store as RedisStore;
    const dispatcher = await desk.dispatch();
    await poll("its connection", async () =>
      String(await store.redis.send(["CLIENT", "LIST"])).includes("sluice-dispatch:"),
    );
    const idle = await desk.run("queue release", "q");
    expect(idle).toMatchObject({ code: 1, stderr: expect.stringContaining("QUEUE_IN_USE") });
    expect(idle.stderr).toContain("a dispatcher of queue q is connected to Redis at 127.0.0.1");
    await desk.gateway.answers(0);
    await fill(store);
    await desk.gateway.reaches(WORKERS);
    const before = await claimed(store);
    expect((await desk.run("queue release")).code).toBe(1);
    expect(await claimed(store)).toBe(before);
    // A queue of another program on the same server is none of this dispatcher's business.
    const other = desk.start("queue", "release", "theirs", "--redis", store.server.url);
    expect((await other.ended()).code, other.stderr).toBe(0);
    await desk.gateway.answers();
    await poll("all results", async () => (await store.countResults()) === TOTAL, 30_000);
    await dispatcher.stop("SIGTERM");
    expect(await desk.run("queue release")).toMatchObject({ code: 0 });
    expect(await stored(store)).toEqual([]);
  });

  it("with --force from a dispatcher that hangs: what it still answers is dropped, and nothing is answered twice", async () => {
    desk = await Desk.open("Redis");
    const store = desk.store as RedisStore;
    const before = await fill(store);
    await desk.gateway.answers(0);
    const dispatcher = await desk.dispatch();
    await desk.gateway.reaches(WORKERS);
    dispatcher.child.kill("SIGSTOP");
    const forced = await desk.run("queue release", "q", "--force");
    expect(forced.code).toBe(0);
    expect(await stored(store)).toEqual(before);
    // The other processor takes all of it before the hanging one goes on.
    expect(await popAll(store)).toHaveLength(TOTAL);
    dispatcher.child.kill("SIGCONT");
    await desk.gateway.answers();
    await dispatcher.stop("SIGTERM");
    expect(await store.countResults()).toBe(0);
    expect(await stored(store)).toEqual([]);
  });

  it("puts retries back, and leaves those of other queues and unreadable ones where they are", async () => {
    desk = await Desk.open("Redis");
    const store = desk.store as RedisStore;
    const deadline = inSeconds(3600);
    const due = String(deadline - 10);
    const mine = Array.from({ length: 600 }, (_, i) =>
      entryOf(`r${i}`, deadline, { request_queue_name: "q", retry_count: 2 }),
    );
    const others = [entryOf("x", deadline, { request_queue_name: "theirs" }), entryOf("y", deadline), "garbage"];
    await store.redis.send(["ZADD", "retries", ...[...mine, ...others].flatMap((entry) => [due, entry])]);
    const kept = await desk.run("queue release", "q", "--keep-retries");
    expect(kept.stderr).toContain("0 claimed messages and 0 retries are back");
    const { code, stderr } = await desk.run("queue release", "q");
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringContaining("600 retries are back; 600 messages wait"),
    });
    const left = (await store.redis.send(["ZRANGE", "retries", "0", "-1"])) as string[];
    expect(left.sort()).toEqual([...others].sort());
    const back = await stored(store);
    expect(back.filter((_, i) => i % 2 === 0).sort()).toEqual([...mine].sort());
    expect(new Set(back.filter((_, i) => i % 2 === 1))).toEqual(new Set([String(deadline)]));
  });

  it("says which key is in the way, and changes nothing", async () => {
    desk = await Desk.open("Redis");
    const { redis } = desk.store as RedisStore;
    await redis.send(["HSET", "{q}:claims", "owner:1", `${inSeconds(60)}\n${entryOf("a", inSeconds(60))}`]);
    await redis.send(["ZADD", "retries", "1", entryOf("b", inSeconds(60), { request_queue_name: "q" })]);
    await redis.send(["SET", "q", "no queue"]);
    const refused = await desk.run("queue release", "q");
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("WRONGTYPE") });
    expect(await claimed(desk.store as RedisStore)).toBe(1);
    expect(await redis.send(["ZCARD", "retries"])).toBe(1);
    expect(await redis.send(["LLEN", "retries:dead"])).toBe(0);
  });
});

describe("sluice queue release on SQLite", () => {
  it("after SIGKILL, at once with --force: the next dispatcher answers every message, each once", async () => {
    desk = await Desk.open("SQLite");
    await desk.store.submit(ids.map((id) => ({ id, deadline: inSeconds(3600), payload: { id } })));
    await desk.gateway.answers(0);
    const dispatcher = await desk.dispatch();
    await desk.gateway.reaches(WORKERS);
    await dispatcher.stop("SIGKILL");
    expect((await desk.store.leftovers()).claimed).toBeGreaterThanOrEqual(WORKERS);
    const { code, stderr } = await desk.run("queue release", "q", "--force");
    expect(code, stderr).toBe(0);
    expect(await desk.store.leftovers()).toMatchObject({ waiting: TOTAL, claimed: 0 });
    await desk.gateway.answers();
    await desk.dispatch();
    await poll("all results", async () => (await desk.store.countResults()) === TOTAL, 30_000);
    const answered = (await desk.store.results()).map((text) => (JSON.parse(text) as { id: string }).id);
    expect(answered.sort()).toEqual([...ids].sort());
  });
});
