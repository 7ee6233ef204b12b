import { afterEach, describe, expect, it } from "vitest";
import type { Broker, Claim, Settlement, SettleOutcome } from "../../src/async/brokers/broker.ts";
import { redisSortedSetBroker } from "../../src/async/brokers/redis-sortedset/broker.ts";
import { redisProducer } from "../../src/async/brokers/redis-sortedset/producer.ts";
import type { Redis } from "../../src/base/redis/connection.ts";
import { poll } from "../support/poll.ts";
import type { TestProcess } from "../support/process.ts";
import { type RedisOptions, type RunningRedis, startRedis } from "../support/redis.ts";
import { fixedLimit } from "../support/slowness.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";
import { startHolder } from "./holder.ts";
import {
  answered,
  at,
  deps,
  direct,
  envelope,
  idsOf,
  inSeconds,
  keepingLog,
  LEASES,
  ok,
  parked,
  producerOn,
  Q,
  Reports,
  reached,
  refused,
  resultIds,
  settingsOf,
  started,
} from "./setup.ts";

let server: RunningRedis;
let redis: Redis;
let proxy: TcpProxy | undefined;
let brokers: Broker[] = [];
let holders: TestProcess[] = [];

async function serve(options?: RedisOptions): Promise<void> {
  server = await startRedis(options);
  redis = await direct(server.url);
}

afterEach(async () => {
  for (const broker of brokers) await broker.close();
  for (const holder of holders) await holder.stop("SIGKILL");
  brokers = [];
  holders = [];
  redis?.close();
  await proxy?.close();
  proxy = undefined;
  await server?.stop();
});

async function begin(url = server.url, claimTtl = LEASES.claimTtl): Promise<{ broker: Broker; reports: Reports }> {
  const made = await started(settingsOf(url, { leases: { ...LEASES, claimTtl } }));
  brokers.push(made.broker);
  return made;
}

async function throughProxy(claimTtl?: number): Promise<{ broker: Broker; reports: Reports }> {
  proxy = await tcpProxy(server.port);
  return begin(`redis://127.0.0.1:${proxy.port}`, claimTtl);
}

async function add(count: number, key = "q", internal: object = {}): Promise<void> {
  const deadline = inSeconds(3600);
  const entries = Array.from({ length: count }, (_, i) => [
    String(key === "q" ? deadline + i : 1),
    envelope(internal, { id: `m${i}`, deadline: deadline + i }),
  ]);
  await redis.send(["ZADD", key, ...entries.flat()]);
}

const claim = async (broker: Broker, max: number): Promise<readonly Claim[]> =>
  (await broker.claim(Q, { max, expired: 0 })).claims;

/** Repeats what the broker could not take, as the dispatcher does. */
async function settled(broker: Broker, settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
  let outcomes: readonly SettleOutcome[] = [];
  await poll("settled", async () => {
    outcomes = await broker.settle(settlements);
    return outcomes.every((outcome) => typeof outcome === "string");
  });
  return outcomes;
}

const unavailable = expect.objectContaining({ code: "BROKER_UNAVAILABLE" });
const numbered = (count: number): string[] => Array.from({ length: count }, (_, i) => `m${i}`);
const said = (holder: TestProcess, word: string): Promise<string> =>
  holder.until(`${word} of a holder`, () => new RegExp(`^${word} (.*)$`, "m").exec(holder.stdout)?.[1]);

describe("answers that are lost", () => {
  it("of a claim: its messages go back at the next reclaim, and no lease counts as lost", async () => {
    await serve();
    await add(3);
    const { broker, reports } = await throughProxy();
    proxy!.loseNextReply();
    await expect(claim(broker, 2)).rejects.toEqual(unavailable);
    await poll("the script ran", async () => (await redis.send(["HLEN", "{q}:claims"])) === 2);
    await reached(broker);
    const [third] = await claim(broker, 2);
    expect(idsOf([third!])).toEqual(["m2"]);
    const before = reports.available_;
    await broker.reclaim(new Set([third!.id]));
    await poll("announced", () => reports.available_ > before);
    const back = await claim(broker, 5);
    expect(idsOf(back)).toEqual(["m0", "m1"]);
    expect(back.map(({ message }) => message.routing.lostLeases)).toEqual([0, 0]);
    expect(reports.reclaimed_).toBe(0);
    expect(await broker.settle([third!, ...back].map(answered))).toEqual(["settled", "settled", "settled"]);
    await broker.reclaim(new Set());
    expect((await resultIds(redis)).sort()).toEqual(numbered(3));
    expect(await broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0 });
  });

  it("A-46 H-25 of a settlement: repeating it writes nothing twice, and says that it was settled", async () => {
    await serve();
    await add(4);
    const { broker } = await throughProxy();
    const claims = await claim(broker, 4);
    const settlements = [
      answered(claims[0]!),
      parked(claims[1]!, 1),
      refused(claims[2]!),
      { kind: "dead", claim: claims[3]!, reason: "no", result: ok("m3") },
    ] satisfies Settlement[];
    proxy!.loseNextReply();
    await expect(broker.settle(settlements)).rejects.toEqual(unavailable);
    expect(await settled(broker, settlements)).toEqual(["settled", "settled", "settled", "settled"]);
    expect(await broker.settle(settlements)).toEqual(["fenced", "fenced", "fenced", "fenced"]);
    expect((await resultIds(redis)).sort()).toEqual(["m0", "m3"]);
    expect(await broker.backlog(Q)).toMatchObject({ waiting: 1, claimed: 0, retries: 1, dead: 1 });
  });

  it("H-27 of a move: the next one finds nothing left to do", async () => {
    await serve();
    await add(50, "retries", { request_queue_name: "q" });
    const { broker } = await throughProxy();
    proxy!.loseNextReply();
    await expect(broker.moveDue()).rejects.toEqual(unavailable);
    await reached(broker);
    await broker.moveDue();
    expect(idsOf(await claim(broker, 100)).sort()).toEqual(numbered(50).sort());
    expect(await broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 50, retries: 0 });
  });
});

describe("a server that is away", () => {
  it("A-39 nothing is done, everything says so, and nothing waits for it", async () => {
    await serve({ appendOnly: true });
    await add(2);
    const { broker } = await begin();
    const claims = await claim(broker, 1);
    await server.kill();
    for (const attempt of [
      () => broker.claim(Q, { max: 1, expired: 1 }),
      () => broker.settle(claims.map(answered)),
      () => broker.renew(claims),
      () => broker.cancelled(claims),
      () => broker.moveDue(),
      () => broker.reclaim(new Set()),
      () => broker.check(),
      () => broker.backlog(Q),
    ])
      await expect(attempt()).rejects.toEqual(unavailable);
    expect(claims[0]!.lost).toBe(false);
    await server.restart();
    expect(await settled(broker, claims.map(answered))).toEqual(["settled"]);
    expect(idsOf(await claim(broker, 5))).toEqual(["m1"]);
  });

  it("A-46 killed again and again under load, append-only: every message has exactly one result", async () => {
    await serve({ appendOnly: true });
    await add(3000);
    const { broker } = await begin(server.url, 2000);
    let writing = true;
    // However fast the machine is, each round has messages left to be killed among.
    let [allowed, done] = [0, 0];
    const held = new Set<string>();
    const work = async (): Promise<void> => {
      while (writing) {
        const room = Math.min(20, allowed - done - held.size);
        const claims = room > 0 ? await claim(broker, room).catch(() => []) : [];
        for (const { id } of claims) held.add(id);
        const outcomes = claims.length > 0 ? await settled(broker, claims.map(answered)) : [];
        done += outcomes.filter((outcome) => outcome === "settled").length;
        for (const { id } of claims) held.delete(id);
        await broker.reclaim(held).catch(() => undefined);
        if (claims.length === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const workers = [work(), work(), work()];
    for (let round = 0; round < 3; round++) {
      const before = await resultIds(redis);
      allowed += 900;
      await poll("some more results", async () => (await resultIds(redis)).length > before.length + 200);
      await server.kill();
      await server.restart();
      await redis.whenReady(fixedLimit(10_000));
    }
    allowed = Number.POSITIVE_INFINITY;
    await poll("all results", async () => (await resultIds(redis)).length >= 3000, 30_000);
    writing = false;
    await Promise.all(workers);
    const results = await resultIds(redis);
    expect(results).toHaveLength(3000);
    expect(new Set(results).size).toBe(3000);
    expect(await broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0, dead: 0 });
  });

  it("A-56 H-9 killed while two movers are at work: each retry is either parked or queued, once", async () => {
    await serve({ appendOnly: true });
    await add(4000, "retries", { request_queue_name: "q" });
    const movers = [(await begin()).broker, (await begin()).broker];
    const moving = movers.map((broker) => broker.moveDue().catch(() => undefined));
    await poll("some are moved", async () => Number(await redis.send(["ZCARD", "q"])) > 200);
    await server.kill();
    await Promise.all(moving);
    await server.restart();
    await redis.whenReady(fixedLimit(10_000));
    const between = await Promise.all(["q", "retries"].map((key) => redis.send(["ZCARD", key])));
    expect(Number(between[0]) + Number(between[1])).toBe(4000);
    for (const broker of movers) await reached(broker);
    await Promise.all(movers.map((broker) => broker.moveDue()));
    expect(await redis.send(["ZCARD", "q"])).toBe(4000);
    expect(await redis.send(["ZCARD", "retries"])).toBe(0);
  });

  it("a consumer waits through it; when nobody waits any more, nothing is taken", async () => {
    await serve({ appendOnly: true });
    const producer = await producerOn(redis);
    const waiting = producer.getResult();
    await server.kill();
    await server.restart();
    await redis.whenReady(fixedLimit(10_000));
    await redis.send(["LPUSH", "results", '{"id":"a","payload":""}']);
    expect((await waiting).id).toBe("a");
    const gone = new AbortController();
    const given = producer.getResult(gone.signal);
    gone.abort(new Error("no more"));
    await expect(given).rejects.toThrow("no more");
    const blocked = async () => /blocked_clients:(\d+)/.exec(String(await redis.send(["INFO", "clients"])))?.[1];
    await poll("nobody waits", async () => (await blocked()) === "0", 3000);
    await redis.send(["LPUSH", "results", '{"id":"b","payload":""}']);
    const last = producer.getResult();
    expect((await last).id).toBe("b");
    const never = expect(producer.getResult()).rejects.toMatchObject({ code: "PRODUCER_CLOSED" });
    await producer.close();
    await never;
  });

  it("a result that is taken for somebody who has left goes back to its place", async () => {
    await serve();
    // With this the consumer cannot end its blocking command, and takes the next result with nobody waiting.
    await redis.send(["ACL", "SETUSER", "limited", "on", ">pass", "~*", "&*", "+@all", "-client|unblock"]);
    const limited = at(`redis://limited:pass@127.0.0.1:${server.port}`);
    const producer = await redisProducer({ connection: limited, resultQueueName: "results" }, deps);
    const gone = new AbortController();
    const given = producer.getResult(gone.signal);
    const blocked = async () => /blocked_clients:(\d+)/.exec(String(await redis.send(["INFO", "clients"])))?.[1];
    await poll("somebody waits", async () => (await blocked()) === "1");
    gone.abort(new Error("no more"));
    await expect(given).rejects.toThrow("no more");
    for (const id of ["a", "b"]) await redis.send(["LPUSH", "results", JSON.stringify({ id, payload: "" })]);
    await poll("both are there", async () => (await redis.send(["LLEN", "results"])) === 2);
    expect(await resultIds(redis)).toEqual(["a", "b"]);
    expect((await producer.getResult()).id).toBe("a");
    await producer.close();
  });

  it("a producer needs an address, a result queue and a server that answers", async () => {
    await serve();
    const made = (more: object) => redisProducer({ resultQueueName: "results", ...more }, deps);
    await expect(made({ resultQueueName: "" })).rejects.toThrow("ResultQueueName is required");
    await expect(made({})).rejects.toMatchObject({ code: "PRODUCER_INVALID" });
    const producer = await made({ connection: at(server.url) });
    await producer.submitRequest({ id: "a", deadline: inSeconds(60), payload: {} });
    expect(await redis.send(["ZCARD", "request-sortedset"])).toBe(1);
    expect([await producer.requestQueueDepth(), await producer.resultQueueDepth()]).toEqual([1, 0]);
    await producer.close();
    const injected = await made({ client: redis });
    await injected.close();
    expect(await redis.send(["PING"])).toBe("PONG");
  });
});

describe("processes that are lost", () => {
  it("A-44 SIGKILL: another finishes everything", async () => {
    await serve();
    await add(6);
    const holder = startHolder(server.url, 4, 500);
    holders.push(holder);
    expect((await said(holder, "holds")).split(",")).toEqual(numbered(4));
    const { broker, reports } = await begin();
    await broker.settle((await claim(broker, 5)).map(answered));
    expect(await resultIds(redis)).toEqual(["m4", "m5"]);
    await holder.stop("SIGKILL");
    await poll("everything is done", async () => {
      await broker.reclaim(new Set());
      await broker.settle((await claim(broker, 5)).map(answered));
      return (await resultIds(redis)).length === 6;
    });
    expect((await resultIds(redis)).sort()).toEqual(numbered(6));
    expect(reports.reclaimed_).toBe(4);
  });

  it("A-45 SIGSTOP for longer than the lease: what it does when it wakes up is fenced", async () => {
    await serve();
    await add(2);
    const holder = startHolder(server.url, 2, 500);
    holders.push(holder);
    await said(holder, "holds");
    holder.child.kill("SIGSTOP");
    // Leases as long as ever: what it takes over it keeps, also when this process stands still in between.
    const { broker } = await begin();
    const taken: Claim[] = [];
    await poll("taken over", async () => {
      await broker.reclaim(new Set());
      taken.push(...(await claim(broker, 2)));
      return taken.length === 2;
    });
    await redis.send(["SET", "go", "1"]);
    holder.child.kill("SIGCONT");
    expect(JSON.parse(await said(holder, "outcomes"))).toEqual(["fenced", "fenced"]);
    expect(await resultIds(redis)).toEqual([]);
    expect(await settled(broker, taken.map(answered))).toEqual(["settled", "settled"]);
    expect((await resultIds(redis)).sort()).toEqual(numbered(2));
  });
});

describe("servers of another kind", () => {
  it("H-44 a cluster is refused, by readiness and by use, with the reason", async () => {
    server = await startRedis({ args: ["--cluster-enabled", "yes"] });
    const { log, lines } = keepingLog();
    const broker = redisSortedSetBroker(settingsOf(server.url), { ...deps, log });
    brokers.push(broker);
    broker.start(new Reports());
    await poll("the refusal", () =>
      broker.check().then(
        () => false,
        (error: { code: string }) => error.code === "REDIS_CLUSTER",
      ),
    );
    await expect(claim(broker, 1)).rejects.toThrow("cluster mode");
    expect(lines.filter(({ level }) => level === "error")).toHaveLength(1);
  });
});
