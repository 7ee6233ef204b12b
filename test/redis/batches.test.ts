import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { valkeyServer } from "../../scripts/test-parts.ts";
import { LeaseLost } from "../../src/async/batch-api/batches.ts";
import { FolderObjects } from "../../src/async/batch-api/file-objects.ts";
import { BatchFolder } from "../../src/async/batch-api/folder.ts";
import { RedisBatches } from "../../src/async/batch-api/redis/redis-batches.ts";
import { freshRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import type { RedisConnection } from "../../src/base/redis/address.ts";
import { type Logger, silentLogger } from "../../src/base/telemetry/logger.ts";
import { batchesCases, makeBatch, upload } from "../support/batch-api/batches.cases.ts";
import { clientAuthority } from "../support/certificates.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import { startCluster, startWatched } from "../support/redis-topologies.ts";
import { ask, ending, serve } from "./peers-setup.ts";

let redis: RunningRedis;
let folder: string;
let names = 0;
let members = 0;

beforeAll(async () => {
  redis = await startRedis({ appendOnly: true });
  folder = mkdtempSync(join(tmpdir(), "sluice-redis-batches-"));
});
afterAll(async () => {
  await redis?.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Opened {
  readonly tls?: RedisConnection["tls"];
  readonly mostEvents?: number;
  readonly log?: Logger;
}

/** One more process with the batches of a name. */
async function open(name = `n${names++}`, url = redis.url, { tls = {}, ...more }: Opened = {}): Promise<RedisBatches> {
  const member = `m${members++}`;
  const batches = new RedisBatches({
    ...{ clock: realClock, random: freshRandom(), log: silentLogger },
    ...{ ...more, connection: { url, tls, enableTracing: false }, name, member, notifies: true },
    spool: new BatchFolder(join(folder, member)),
    objects: new FolderObjects(join(folder, name)),
  });
  await new FolderObjects(join(folder, name)).check();
  await batches.whenReady(10_000);
  return batches;
}

batchesCases(() => open());

describe("processes that share a store", () => {
  const { signal } = new AbortController();
  const journalOf = async (batches: RedisBatches, held: { id: string; epoch: number }) => {
    const journal = batches.journal(held);
    const lines: string[] = [];
    for await (const text of journal.read(signal)) lines.push(...text.trimEnd().split("\n").filter(Boolean));
    return { journal, lines };
  };

  it("share the batches, and take over those of one that is gone", async () => {
    const name = `n${names++}`;
    const [a, b] = [await open(name), await open(name)];
    try {
      const file = await upload(a, "x", "x");
      const ids = [await makeBatch(a, "x", file), await makeBatch(b, "x", file), await makeBatch(b, "y", file)];
      expect(ids[2]).toBe("no-file");
      // Both are there before the batches are shared out.
      await b.look(true);
      await b.release();
      await a.look(false);
      await b.look(false);
      expect(await a.look(true)).toHaveLength(2);
      await a.release();
      await Promise.all([a.look(false), b.look(false)]);
      await b.look(true);
      await b.release();
      expect(await b.look(true)).toHaveLength(2);
      expect(await a.look(true)).toEqual([]);
      // The one of the two that does not look any more loses its batches, and cannot write.
      const [held] = await b.look(true);
      const heir = await poll("a takeover", async () => (await a.look(true)).find(({ id }) => id === held!.id));
      expect(heir.epoch).toBeGreaterThan(held!.epoch);
      await expect(b.note(held!, (await b.any(held!.id))!, { underWay: 0, rate: 0, problem: "" })).rejects.toThrow(
        LeaseLost,
      );
      await expect(b.advance(held!, 1)).rejects.toThrow(LeaseLost);
      await expect(b.move(held!, "in_progress", 1)).rejects.toThrow(LeaseLost);
      await expect((await journalOf(b, held!)).journal.append(["z\n"])).rejects.toThrow(LeaseLost);
      expect(await a.move(heir, "in_progress", 1)).toBe(true);
    } finally {
      a.close();
      b.close();
    }
  });

  it("go on from the answers of one that is gone, which are in the store or in objects", async () => {
    const name = `n${names++}`;
    const [a, b] = [await open(name), await open(name)];
    const objects = (): string[] => readdirSync(join(folder, name)).filter((each) => each.startsWith("part-"));
    try {
      const id = await makeBatch(a, "x", await upload(a, "x", "x"));
      const [held] = await a.look(true);
      const { journal, lines } = await journalOf(a, held!);
      expect(lines).toEqual([]);
      const wide = (n: number): string => `${n} ${"x".repeat(300_000)}\n`;
      for (let n = 0; n < 10; n++) await journal.append([wide(n)]);
      expect(objects()).toHaveLength(2);
      const seen = async (batches: RedisBatches, held: { id: string; epoch: number }): Promise<number[]> =>
        (await journalOf(batches, held)).lines.map((line) => Number.parseInt(line, 10));
      const all = Array.from({ length: 10 }, (_, n) => n);
      expect(await seen(a, held!)).toEqual(all);
      await a.release();
      const heir = (await b.look(true)).find((each) => each.id === id)!;
      expect(await seen(b, heir)).toEqual(all);
      await expect(journal.append(["late\n"])).rejects.toThrow(LeaseLost);
      await expect(journal.append(["l".repeat(2 ** 20)])).rejects.toThrow(LeaseLost);
      const next = await journalOf(b, heir);
      await next.journal.append(["10\n"]);
      expect(await seen(b, heir)).toEqual([...all, 10]);
      // Answers that the store has lost are told to whoever wrote them.
      const other = await journalOf(b, heir);
      await other.journal.append(["11\n"]);
      await expect(next.journal.append(["12\n"])).rejects.toMatchObject({ code: "BATCH_STORE" });
      // What is gone from the bucket is asked for again.
      for (const part of objects()) rmSync(join(folder, name, part));
      expect(await seen(b, heir)).toEqual([8, 9, 10, 11]);
      await b.move(heir, "failed", 1);
      expect(await b.cancel(id, 2)).toBe(false);
    } finally {
      a.close();
      b.close();
    }
  });

  it("count the files of a caller together", async () => {
    const name = `n${names++}`;
    const [a, b] = [await open(name), await open(name)];
    try {
      const limits = { callerFiles: 3, callerBytes: 100 };
      const outcomes = await Promise.all([a, b, a, b, a].map((each) => upload(each, "x", "x".repeat(20), limits)));
      expect(outcomes.filter((each) => each.startsWith("file-"))).toHaveLength(3);
      expect(outcomes.filter((each) => each === "too-many-files")).toHaveLength(2);
    } finally {
      a.close();
      b.close();
    }
  });

  it("keep their leases while the memory of the store is full, and refuse what is new", async () => {
    const a = await open();
    try {
      const id = await makeBatch(a, "x", await upload(a, "x", "x"));
      const [held] = await a.look(true);
      await ask(redis.url, "CONFIG", "SET", "maxmemory", "1");
      await expect(upload(a, "x", "x")).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
      await expect(a.journal(held!).append(["1\n"])).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
      expect(await a.look(true)).toEqual([held]);
      expect(await a.cancel(id, 1)).toBe(true);
      expect(await a.move(held!, "cancelled", 2)).toBe(true);
    } finally {
      await ask(redis.url, "CONFIG", "SET", "maxmemory", "0");
      a.close();
    }
  });

  it.each(["Redis with TLS", "Valkey"])("live in a %s, as a user who may do no more than that", async (kind) => {
    const { ca, client: own, server: pair } = await clientAuthority();
    const commands = [
      ...["+hello", "+select", "+client|setname", "+info", "+evalsha", "+eval", "+script|load", "+time"],
      ...["+get", "+set", "+incr", "+del", "+exists", "+rpush", "+lrange", "+lindex", "+llen"],
      ...["+hget", "+hset", "+hdel", "+hmget", "+hlen", "+hexists", "+hincrby"],
      ...["+zadd", "+zcard", "+zrange", "+zrem", "+zscore", "+zremrangebyscore"],
    ];
    const user = ["--user", "batches", "on", ">secret", "~sluice:batches:*", ...commands];
    const secured = { tls: { ...pair, ca }, args: user };
    // The Valkey of the tests is built without TLS.
    const server = await serve(kind === "Valkey" ? { program: valkeyServer(), args: user } : secured);
    const tls = kind === "Valkey" ? {} : { ca, ...own };
    const a = await open(undefined, server.url.replace("//", "//batches:secret@"), { tls });
    try {
      const id = await makeBatch(a, "x", await upload(a, "x", "x"));
      const [held] = await a.look(true);
      const { journal } = await journalOf(a, held!);
      await journal.append(["1\n"]);
      await journal.append([`2${"x".repeat(2 ** 20)}\n`]);
      expect((await journalOf(a, held!)).lines).toHaveLength(2);
      expect(await a.move(held!, "failed", 1)).toBe(true);
      const [event] = await a.events.due(2, 9);
      await a.events.end(event!, "delivered", 0);
      expect(await a.list("x", { after: undefined, limit: 9, order: "desc" })).toMatchObject({ entries: [{ id }] });
      expect(await a.totals()).toMatchObject({ open: 0 });
      await a.tidy(2 ** 31, 1);
      expect(await a.any(id)).toBeUndefined();
    } finally {
      a.close();
    }
  });

  it("give the oldest event up when too many wait", async () => {
    const given: unknown[] = [];
    const log: Logger = { ...silentLogger, error: ({ batch }) => given.push(batch) };
    const a = await open(undefined, undefined, { mostEvents: 2, log });
    try {
      const file = await upload(a, "x", "x");
      const ids = [await makeBatch(a, "x", file), await makeBatch(a, "x", file), await makeBatch(a, "x", file)];
      const held = await a.look(true);
      for (const [at, id] of ids.entries()) await a.move(held.find((each) => each.id === id)!, "failed", 10 + at);
      expect(await a.events.figures()).toEqual({ delivered: 0, givenUp: 1, failedAttempts: 0, waiting: 2 });
      const due = await a.events.due(100, 9);
      expect(due.map(({ batchId }) => batchId).sort()).toEqual(ids.slice(1).sort());
      expect(given).toEqual([ids[0]]);
    } finally {
      a.close();
    }
  });

  it("live on one node of a cluster, and follow a Sentinel", async () => {
    const cluster = await startCluster({ serve, ask });
    const watched = await startWatched({ serve, ending, ask });
    for (const url of [cluster.nodes[0]!.url, cluster.nodes[1]!.url, watched.url]) {
      const a = await open(undefined, url);
      try {
        const id = await makeBatch(a, "x", await upload(a, "x", "x"));
        const [held] = await a.look(true);
        const { journal } = await journalOf(a, held!);
        await journal.append(["1\n"]);
        await journal.append([`2${"x".repeat(2 ** 20)}\n`]);
        expect((await journalOf(a, held!)).lines).toHaveLength(2);
        if (url === watched.url) {
          await poll(
            "the replica to have all",
            async () => (await ask(watched.primary.url, "WAIT", "1", "1000")) === 1,
          );
          await watched.failOver();
          await poll("the new primary", async () => (await a.look(true)).length === 1);
        }
        expect(await a.move(held!, "failed", 1)).toBe(true);
        expect((await a.latest(9)).map((batch) => batch.id)).toEqual([id]);
      } finally {
        a.close();
      }
    }
  });

  it("lose nothing when the store is killed, and say that it is away", async () => {
    const name = `n${names++}`;
    const a = await open(name);
    try {
      const file = await upload(a, "x", "x");
      const id = await makeBatch(a, "x", file);
      const [held] = await a.look(true);
      const { journal } = await journalOf(a, held!);
      await journal.append(["1\n"]);
      await redis.kill();
      await expect(a.any(id)).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
      await expect(journal.append(["2\n"])).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
      await redis.restart();
      await a.whenReady(10_000);
      expect(await a.look(true)).toEqual([held]);
      await journal.append(["2\n"]);
      expect((await journalOf(a, held!)).lines).toEqual(["1", "2"]);
      expect((await a.any(id))?.status).toBe("validating");
    } finally {
      a.close();
    }
  });
});
