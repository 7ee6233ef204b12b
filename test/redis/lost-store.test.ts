import { rmSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import type { Broker, Claim, Settlement, SettleOutcome } from "../../src/async/brokers/broker.ts";
import { parseResult } from "../../src/async/brokers/messages/result.ts";
import type { Redis } from "../../src/base/redis/connection.ts";
import { poll } from "../support/poll.ts";
import { startRedis } from "../support/redis.ts";
import { RedisPair } from "../support/redis-pair.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import {
  answered,
  direct,
  idsOf,
  inSeconds,
  keepingLog,
  parked,
  producerOn,
  Q,
  type Reports,
  reached,
  refused,
  settingsOf,
  started,
} from "./setup.ts";

const ends: (() => Promise<unknown> | unknown)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

function ending<T>(part: T, end: (part: T) => Promise<unknown> | unknown): T {
  ends.push(() => end(part));
  return part;
}

const ask = async (url: string, ...command: string[]): Promise<unknown> => {
  const redis = await direct(url);
  try {
    return await redis.send(command);
  } finally {
    redis.close();
  }
};

async function begin(url: string, claimTtl = 60_000): Promise<{ broker: Broker; reports: Reports }> {
  const made = await started(settingsOf(url, { leases: { claimTtl, reclaimInterval: 5000, maxAttempts: 0 } }));
  ending(made.broker, (broker) => broker.close());
  return made;
}

async function submit(redis: Redis, ...ids: string[]): Promise<void> {
  const producer = await producerOn(redis);
  await producer.submitRequests(ids.map((id, i) => ({ id, deadline: inSeconds(3600) + i, payload: {} })));
}

const numbered = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, i) => `m${from + i}`);
const claim = async (broker: Broker, max: number): Promise<readonly Claim[]> =>
  (await broker.claim(Q, { max, expired: 0 })).claims;

/** Repeats what the broker could not take, as the dispatcher does. */
async function settled(broker: Broker, settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
  let outcomes: readonly SettleOutcome[] = [];
  await poll("settled", async () => {
    outcomes = await broker.settle(settlements).catch(() => [{ failed: "away" }]);
    return outcomes.every((outcome) => typeof outcome === "string");
  });
  return outcomes;
}

async function results(redis: Redis): Promise<{ id: string; recovered: boolean }[]> {
  const texts = (await redis.send(["LRANGE", "results", "0", "-1"])) as string[];
  return texts.toReversed().map((text) => {
    const { id, recovered = false } = parseResult(text);
    return { id, recovered };
  });
}
const all = (outcome: SettleOutcome, count: number): SettleOutcome[] => Array(count).fill(outcome);

describe("a replica that lagged and was promoted", () => {
  async function pair(): Promise<{ pair: RedisPair; primary: Redis; replica: Redis }> {
    const made = ending(await RedisPair.start(ask), (each) => each.stop());
    const primary = ending(await direct(made.primary.url), (redis) => redis.close());
    const replica = ending(await direct(made.replica.url), (redis) => redis.close());
    return { pair: made, primary, replica };
  }

  it("takes the answers of what waits in it again, and nobody gets these messages a second time", async () => {
    const { pair: servers, primary, replica } = await pair();
    const { broker, reports } = await begin(servers.url);
    await submit(primary, ...numbered(0, 10));
    await servers.inStep();
    servers.lag();
    const claims = await claim(broker, 6);
    await servers.failOver();
    expect(await replica.send(["ZCARD", "q"])).toBe(10);
    expect(await settled(broker, claims.map(answered))).toEqual(all("recovered", 6));
    expect(reports.forgotten_).toBe(6);
    expect(await broker.backlog(Q)).toMatchObject({ waiting: 4, claimed: 0 });
    const rest = await claim(broker, 10);
    expect(idsOf(rest)).toEqual(numbered(6, 10));
    expect(await broker.settle(rest.map(answered))).toEqual(all("settled", 4));
    expect((await results(replica)).map(({ id }) => id).sort()).toEqual(numbered(0, 10));
  });

  it("takes the answers of messages that it has never heard of", async () => {
    const { pair: servers, primary, replica } = await pair();
    const { broker } = await begin(servers.url);
    servers.lag();
    await submit(primary, ...numbered(0, 3));
    const claims = await claim(broker, 3);
    await servers.failOver();
    expect(await settled(broker, claims.map(answered))).toEqual(all("recovered", 3));
    expect(await results(replica)).toEqual(numbered(0, 3).map((id) => ({ id, recovered: true })));
  });

  it("gives this process nothing that it has in hand: leases are made again before anything is claimed", async () => {
    const { pair: servers, primary } = await pair();
    const { broker, reports } = await begin(servers.url);
    await submit(primary, ...numbered(0, 8));
    const early = await claim(broker, 2);
    await servers.inStep();
    servers.lag();
    const late = await claim(broker, 3);
    reports.held.push(...early, ...late);
    await servers.failOver();
    await reached(broker);
    expect(idsOf(await claim(broker, 10))).toEqual(numbered(5, 8));
    expect(reports.forgotten_).toBe(3);
    // Numbers of claims go on under another name: what was claimed since says nothing about what was claimed before.
    expect(await settled(broker, [...early, ...late].map(answered))).toEqual([
      ...all("settled", 2),
      ...all("recovered", 3),
    ]);
  });

  it("the first answer counts when another process has claimed the same message since", async () => {
    const { pair: servers, primary, replica } = await pair();
    const { broker } = await begin(servers.url);
    await submit(primary, ...numbered(0, 3));
    // As a producer in another language writes it: the claim script does not find its id.
    const deadline = inSeconds(7200);
    const odd = `{"internal": {"request_token": "odd"}, "request_kind": "redis", "data": {"id": "odd", "deadline": ${deadline}, "payload": {}}}`;
    await primary.send(["ZADD", "q", String(deadline), odd]);
    await servers.inStep();
    servers.lag();
    const mine = await claim(broker, 4);
    await servers.failOver();
    const other = await begin(servers.url);
    const theirs = await claim(other.broker, 4);
    expect(idsOf(theirs)).toEqual(idsOf(mine));
    expect(await settled(broker, mine.map(answered))).toEqual(all("recovered", 4));
    // Their answer is late, and what they give back is not sent any more.
    const late = [answered(theirs[0]!), parked(theirs[1]!, 1), refused(theirs[2]!), refused(theirs[3]!)];
    expect(await other.broker.settle(late)).toEqual(["answered", "settled", "settled", "settled"]);
    await other.broker.moveDue();
    expect((await other.broker.backlog(Q)).waiting).toBe(3);
    expect(await claim(other.broker, 5)).toEqual([]);
    expect(await other.broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0, retries: 0, dead: 0 });
    expect((await results(replica)).map(({ id }) => id).sort()).toEqual([...numbered(0, 3), "odd"].sort());
    // The same id in a new submission is another message.
    await submit(replica, "m0");
    expect(idsOf(await claim(other.broker, 5))).toEqual(["m0"]);
  });

  it("a result that another process has recovered is not written twice", async () => {
    const { pair: servers, primary, replica } = await pair();
    const one = await begin(servers.url);
    const two = await begin(servers.url, 400);
    await submit(primary, "m0");
    await servers.inStep();
    servers.lag();
    const [first] = await claim(two.broker, 1);
    let second: Claim | undefined;
    await poll("the lease ran out", async () => {
      await one.broker.reclaim(new Set());
      [second] = await claim(one.broker, 1);
      return second !== undefined;
    });
    await servers.failOver();
    expect(await settled(one.broker, [answered(second!)])).toEqual(["recovered"]);
    expect(await settled(two.broker, [answered(first!)])).toEqual(["answered"]);
    await reached(two.broker);
    expect(await two.broker.renew([first!])).toEqual([first]);
    expect(await results(replica)).toEqual([{ id: "m0", recovered: true }]);
  });

  it("counts as away for as long as it takes no writes, and its address is asked again and again", async () => {
    const { pair: servers } = await pair();
    const { broker } = await begin(servers.url);
    await ask(servers.primary.url, "REPLICAOF", "127.0.0.1", "9");
    await poll("not ready", () =>
      broker.check().then(
        () => false,
        () => true,
      ),
    );
    await poll("the reason", () =>
      broker.check().then(
        () => false,
        (error: Error) => error.message.includes("READONLY"),
      ),
    );
    await expect(claim(broker, 1)).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    await ask(servers.primary.url, "REPLICAOF", "NO", "ONE");
    await reached(broker);
  });
});

describe("a server that loses data", () => {
  async function serve(): Promise<{ redis: Redis; url: string; port: number }> {
    const server = ending(await startRedis(), (each) => each.stop());
    const redis = ending(await direct(server.url), (each) => each.close());
    return { redis, url: server.url, port: server.port };
  }

  it("writes nothing twice when answers are lost on the way as well", async () => {
    const { redis, port } = await serve();
    const proxy = ending(await tcpProxy(port), (each) => each.close());
    const { broker } = await begin(`redis://127.0.0.1:${proxy.port}`);
    // Of an ordinary settlement, of the claims that are put back, of the settlement after that.
    for (const lost of [1, 2, 3]) {
      await submit(redis, "a", "b");
      const claims = await claim(broker, 2);
      await redis.send(["FLUSHALL"]);
      const settlements = [answered(claims[0]!), parked(claims[1]!, inSeconds(600))];
      for (let i = 0; i < lost; i++) {
        await reached(broker);
        proxy.loseNextReply();
        await broker.settle(settlements).catch(() => undefined);
      }
      await reached(broker);
      expect(await settled(broker, settlements)).toEqual(["recovered", "recovered"]);
      expect(await results(redis)).toEqual([{ id: "a", recovered: true }]);
      expect(await broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0, retries: 1 });
    }
  });

  it("takes the answers when only the claims are gone, as an eviction leaves it", async () => {
    const { redis, url } = await serve();
    const { broker } = await begin(url);
    await submit(redis, "a", "b");
    const [a, b] = await claim(broker, 2);
    await redis.send(["DEL", "{q}:claims"]);
    expect(await broker.settle([answered(a!)])).toEqual(["recovered"]);
    expect(await broker.renew([b!])).toEqual([]);
    expect(await broker.settle([answered(b!)])).toEqual(["recovered"]);
    expect((await results(redis)).map(({ id }) => id)).toEqual(["a", "b"]);
  });

  it("takes a retry out of its set when the message is parked there again", async () => {
    const { redis, url } = await serve();
    const { broker } = await begin(url);
    await submit(redis, "a");
    const [a] = await claim(broker, 1);
    const entry = ((await redis.send(["HVALS", "{q}:claims"])) as string[])[0]!.split("\n")[1]!;
    await redis.send(["FLUSHALL"]);
    await redis.send(["ZADD", "retries", "1", entry]);
    expect(await broker.settle([answered(a!)])).toEqual(["recovered"]);
    await broker.moveDue();
    expect(await claim(broker, 1)).toEqual([]);
  });

  it("a producer that submits the same id again has its own result", async () => {
    const { redis, url } = await serve();
    const { broker } = await begin(url);
    await submit(redis, "a");
    const [before] = await claim(broker, 1);
    await redis.send(["FLUSHALL"]);
    await submit(redis, "a");
    expect(await broker.settle([answered(before!)])).toEqual(["recovered"]);
    const [after] = await claim(broker, 1);
    expect(await broker.settle([answered(after!)])).toEqual(["settled"]);
    expect(await results(redis)).toEqual([
      { id: "a", recovered: true },
      { id: "a", recovered: false },
    ]);
  });

  it("remembers owners that live, and forgets those that have done nothing for a day when there are many", async () => {
    const { redis, url } = await serve();
    const { broker } = await begin(url);
    const peer = await begin(url);
    await submit(redis, "a", "b");
    const [a] = await claim(broker, 1);
    const [b] = await claim(peer.broker, 1);
    const [owner] = a!.id.split(":");
    const [other] = b!.id.split(":");
    const stale = Date.now() - 25 * 3_600_000;
    const fields = Array.from({ length: 1100 }, (_, i) => [`gone${i}`, `7:${i < 100 ? Date.now() : stale}`]).flat();
    await redis.send(["HSET", "{q}:owners", owner!, `1:${stale}`, other!, `1:${stale}`, ...fields]);
    await broker.renew([a!]);
    await broker.reclaim(new Set());
    expect(await redis.send(["HLEN", "{q}:owners"])).toBe(101);
    expect(await redis.send(["HEXISTS", "{q}:owners", owner!])).toBe(1);
    // It was asleep for a day and is taken for a victim of a loss: its answer is kept.
    await redis.send(["HDEL", "{q}:claims", b!.id]);
    await redis.send(["ZREM", "{q}:leases", b!.id]);
    expect(await peer.broker.settle([answered(b!)])).toEqual(["recovered"]);
  });

  it("warns of a server that may evict queues", async () => {
    const { redis, url } = await serve();
    const warned = async (): Promise<number> => {
      const { log, lines } = keepingLog();
      const { broker } = await started(settingsOf(url), log);
      await broker.backlog(Q);
      await broker.close();
      return lines.filter(({ message }) => message.includes("noeviction")).length;
    };
    expect(await warned()).toBe(0);
    await redis.send(["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    expect(await warned()).toBe(0);
    await redis.send(["CONFIG", "SET", "maxmemory", "100mb"]);
    expect(await warned()).toBe(1);
    await redis.send(["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    expect(await warned()).toBe(0);
  });

  it("says why it is not ready while nothing can be written, and is ready again at once", async () => {
    const { redis, url } = await serve();
    const { broker } = await begin(url);
    const reason = (): Promise<string> =>
      broker.check().then(
        () => "ready",
        (error: Error) => error.message,
      );
    const faults: [string, string[][], string[][]][] = [
      ["OOM", [["CONFIG", "SET", "maxmemory", "1"]], [["CONFIG", "SET", "maxmemory", "0"]]],
      [
        "NOREPLICAS",
        [["CONFIG", "SET", "min-replicas-to-write", "1"]],
        [["CONFIG", "SET", "min-replicas-to-write", "0"]],
      ],
      ["key q: .*WRONGTYPE", [["SET", "q", "x"]], [["DEL", "q"]]],
      ["key {q}:claims: .*WRONGTYPE", [["SET", "{q}:claims", "x"]], [["DEL", "{q}:claims"]]],
      ["key {q}:leases: .*WRONGTYPE", [["SET", "{q}:leases", "x"]], [["DEL", "{q}:leases"]]],
      ["key {q}:owners: .*WRONGTYPE", [["SET", "{q}:owners", "x"]], [["DEL", "{q}:owners"]]],
      ["key retries: .*WRONGTYPE", [["SET", "retries", "x"]], [["DEL", "retries"]]],
      ["key results: .*WRONGTYPE", [["SET", "results", "x"]], [["DEL", "results"]]],
    ];
    expect(await reason()).toBe("ready");
    for (const [expected, fault, remedy] of faults) {
      for (const command of fault) await redis.send(command);
      expect(await reason()).toMatch(new RegExp(expected));
      for (const command of remedy) await redis.send(command);
      expect(await reason()).toBe("ready");
    }
    // Asking leaves nothing behind.
    expect(await redis.send(["DBSIZE"])).toBe(0);
    const { dir: folder } = (await redis.send(["CONFIG", "GET", "dir"])) as unknown as { dir: string };
    // In this order: once it saves by itself, it fails as soon as the folder is gone, and takes no writes.
    await redis.send(["SET", "anything", "x"]);
    rmSync(folder, { recursive: true });
    await redis.send(["CONFIG", "SET", "save", "1 1"]);
    await poll("a snapshot that fails", async () => {
      await redis.send(["BGSAVE"]).catch(() => undefined);
      return (await reason()).includes("MISCONF");
    });
    await redis.send(["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    expect(await reason()).toBe("ready");
  });
});
