import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Broker, BrokerEvents, Claim, Settlement } from "../../src/async/brokers/broker.ts";
import { errorResult } from "../../src/async/brokers/messages/result.ts";
import { redisPubSubBroker } from "../../src/async/brokers/redis-pubsub/broker.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { VirtualClock } from "../../src/base/clock/virtual.ts";
import { connectRedis, type Redis } from "../../src/base/redis/connection.ts";
import { type Logger, silentLogger } from "../../src/base/telemetry/logger.ts";
import { queueOf } from "../support/brokers/broker.cases.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import { fixedLimit } from "../support/slowness.ts";

const Q = queueOf("jobs", { id: "mine", labels: { team: "a" } });
const RETRIES = "retries";

let server: RunningRedis;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(() => server?.stop());

describe("redis-pubsub", () => {
  let redis: Redis;
  let brokers: Broker[];
  let results: string[];
  let announced: number;
  let dead: string[];
  let retried: number;

  const connection = (): { url: string; tls: object; enableTracing: boolean } => ({
    url: server.url,
    tls: {},
    enableTracing: false,
  });

  beforeEach(async () => {
    brokers = [];
    results = [];
    announced = 0;
    dead = [];
    retried = 0;
    redis = connectRedis(connection(), { clock: realClock, random: new SeededRandom(1), log: silentLogger });
    await redis.whenReady(fixedLimit(5000));
    await redis.send(["FLUSHALL"]);
  });

  afterEach(async () => {
    for (const broker of brokers) await broker.close();
    redis.close();
  });

  async function begin(
    clock: VirtualClock | typeof realClock = realClock,
    log: Logger = silentLogger,
  ): Promise<Broker> {
    const broker = redisPubSubBroker(
      {
        transport: "redis-pubsub",
        redis: connection(),
        queues: [Q],
        resultQueueName: "results",
        retryQueueName: RETRIES,
        pollInterval: 1000,
        batchCap: undefined,
        leases: { claimTtl: 60_000, reclaimInterval: 5000, maxAttempts: 0 },
      },
      { clock, random: new SeededRandom(2), log },
    );
    brokers.push(broker);
    const events: BrokerEvents = {
      available() {
        announced++;
      },
      deadLettered(_queue, reason) {
        dead.push(reason);
      },
      reclaimed() {},
      writeRetried() {
        retried++;
      },
      forgotten() {},
      async doubted() {},
    };
    broker.start(events);
    await poll("the broker to listen", () => broker.check().then(() => true));
    return broker;
  }

  async function listen(): Promise<Redis> {
    const listener = redis.another({});
    listener.subscribe("results", (text) => results.push(text));
    await listener.whenReady(fixedLimit(5000));
    return listener;
  }

  const inSeconds = (seconds: number): number => Math.floor(realClock.wall() / 1000) + seconds;
  const envelope = (id: string, internal: object = {}, deadline = inSeconds(600)): string =>
    JSON.stringify({ internal, request_kind: "redis", data: { id, deadline, payload: { n: 1 } } });
  const publish = (text: string): Promise<unknown> => redis.send(["PUBLISH", "jobs", text]);
  const park = (text: string, due: number): Promise<unknown> => redis.send(["ZADD", RETRIES, String(due), text]);
  const parked = async (): Promise<string[]> => (await redis.send(["ZRANGE", RETRIES, "0", "-1"])) as string[];
  const claim = async (broker: Broker, max = 10): Promise<readonly Claim[]> =>
    (await broker.claim(Q, { max, expired: 10 })).claims;
  async function claimed(broker: Broker, count: number): Promise<Claim[]> {
    const claims: Claim[] = [];
    await poll(`${count} claims`, async () => {
      claims.push(...(await claim(broker, count - claims.length)));
      return claims.length === count;
    });
    return claims;
  }
  const idOf = (one: Claim): string => one.message.request.id;
  const answered = (one: Claim): Settlement => ({
    kind: "result",
    claim: one,
    result: { ...errorResult(idOf(one), "INFERENCE_ERROR", ""), errorCode: "", statusCode: 200 },
  });
  const retry = (one: Claim, due: number): Settlement => ({
    kind: "retry",
    claim: one,
    due,
    retryCount: one.message.routing.retryCount + 1,
    labels: { team: "a", tier: "gold" },
  });

  it("A-59 a message on the channel becomes a claim, its result stands on the one result channel", async () => {
    const broker = await begin();
    const listener = await listen();
    const spoofed = { request_queue_name: "theirs", queue_id: "theirs", result_queue_name: "elsewhere" };
    await publish(envelope("a", spoofed));
    await poll("announced", () => announced === 1);
    const [a] = await claim(broker);
    expect(a!.message.routing).toMatchObject({ requestQueueName: "jobs", queueId: "mine", labels: { team: "a" } });
    expect(await broker.settle([answered(a!)])).toEqual(["settled"]);
    await poll("the result", () => results.length === 1);
    expect(JSON.parse(results[0]!)).toMatchObject({ id: "a", status_code: 200 });
    expect(await broker.settle([answered(a!)])).toEqual(["fenced"]);
    listener.close();
  });

  it("A-59 is there again after the server was killed and restarted, for messages and for results", async () => {
    const broker = await begin();
    await publish(envelope("before"));
    const [before] = await claimed(broker, 1);
    await server.kill();
    expect(await broker.settle([answered(before!)])).toEqual([{ failed: expect.stringContaining("cannot be used") }]);
    await expect(broker.check()).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    await server.restart();
    await poll("the broker to be back", () => broker.check().then(() => true));
    await redis.whenReady(fixedLimit(10_000));
    const listener = await listen();
    await publish(envelope("after"));
    const [after] = await claimed(broker, 1);
    expect(await broker.settle([answered(before!), answered(after!)])).toEqual(["settled", "settled"]);
    await poll("both results", () => results.length === 2);
    expect(results.map((text) => JSON.parse(text).id)).toEqual(["before", "after"]);
    expect(retried).toBe(1);
    listener.close();
  });

  it("A-59 a broker that starts before its server waits for it", async () => {
    await server.kill();
    const starting = begin();
    await server.restart();
    const broker = await starting;
    await redis.whenReady(fixedLimit(10_000));
    await publish(envelope("a"));
    expect((await claimed(broker, 1)).map(idOf)).toEqual(["a"]);
  });

  it("every replica gets every message", async () => {
    const [one, other] = [await begin(), await begin()];
    await publish(envelope("a"));
    expect((await claimed(one, 1)).map(idOf)).toEqual(["a"]);
    expect((await claimed(other, 1)).map(idOf)).toEqual(["a"]);
  });

  it("says at start that it promises nothing", async () => {
    const lines: string[] = [];
    await begin(realClock, { ...silentLogger, warn: (_fields, message) => lines.push(message) });
    expect(lines.filter((line) => line.includes("does not guarantee delivery"))).toHaveLength(1);
  });

  it("A-50 what cannot be read is skipped; its owner is told where that is known", async () => {
    const broker = await begin();
    const listener = await listen();
    await publish("garbage");
    await publish(JSON.stringify({ request_kind: "pigeon", data: { id: "odd", deadline: 1 } }));
    await publish(envelope("good"));
    expect((await claimed(broker, 1)).map(idOf)).toEqual(["good"]);
    await poll("told", () => results.length === 1);
    expect(JSON.parse(results[0]!)).toMatchObject({ id: "odd", error_code: "INVALID_REQUEST" });
    expect(dead).toHaveLength(2);
    listener.close();
  });

  it("H-23 messages that nobody takes are dropped beyond a bound, which is said", async () => {
    const lines: object[] = [];
    const broker = await begin(realClock, { ...silentLogger, error: (fields) => lines.push(fields) });
    const text = envelope("a");
    for (let sent = 0; sent < 10_050; sent += 50) await Promise.all(Array.from({ length: 50 }, () => publish(text)));
    await poll("drops", () => lines.length > 0);
    expect(lines).toEqual([{ channel: "jobs", dropped: 1 }]);
    expect((await broker.claim(Q, { max: 0, expired: 0 })).waiting).toBe(10_000);
    let total = 0;
    for (let claims = await claim(broker, 1000); claims.length > 0; claims = await claim(broker, 1000)) {
      total += claims.length;
      await broker.settle(claims.map(answered));
    }
    // The first one is known to be dropped; of the others some may come while there is room again.
    expect(total).toBeGreaterThanOrEqual(10_000);
    expect(total).toBeLessThan(10_050);
  });

  it("a retry waits in Redis until it is due, and comes back to its channel with its labels and its count", async () => {
    const broker = await begin();
    await publish(envelope("a"));
    const [a] = await claimed(broker, 1);
    const due = realClock.wall() / 1000 + 0.3;
    expect(await broker.settle([retry(a!, due)])).toEqual(["settled"]);
    expect(await parked()).toHaveLength(1);
    expect(await claim(broker)).toEqual([]);
    let again: readonly Claim[] = [];
    await poll("the retry", async () => {
      expect(await broker.moveDue()).toBeLessThanOrEqual(1000);
      again = await claim(broker);
      return again.length > 0;
    });
    expect(realClock.wall() / 1000).toBeGreaterThanOrEqual(due);
    expect(again[0]!.message.routing).toMatchObject({ retryCount: 1, labels: { team: "a", tier: "gold" } });
    expect(await parked()).toEqual([]);
  });

  it("a refused message comes back without a retry counted", async () => {
    const broker = await begin();
    await publish(envelope("a"));
    const [a] = await claimed(broker, 1);
    expect(await broker.settle([{ kind: "refuse", claim: a!, labels: {} }])).toEqual(["settled"]);
    await broker.moveDue();
    const [again] = await claim(broker);
    expect(again!.message.routing.retryCount).toBe(0);
  });

  it("A-60 H-10 retries of another deployment under the same key survive, where they stand", async () => {
    const clock = new VirtualClock(realClock.wall());
    const broker = await begin(clock);
    const theirs = Array.from({ length: 2500 }, (_, at) => envelope(`t${at}`, { request_queue_name: "other" }));
    await redis.send(["ZADD", RETRIES, ...theirs.flatMap((text, at) => [String(1000 + at), text])]);
    await park("no json", 1);
    await park(JSON.stringify({ data: { id: "x" } }), 2);
    // Behind them all, as foreign processors may write it: other order, braces and spaces.
    const odd = `{ "request_kind":"redis","data":{"id":"odd","deadline":${inSeconds(600)},"payload":{}}, "internal":{"labels":{"t":"}{"},"request_queue_name":"jobs"}}`;
    await park(envelope("ours", { retry_count: 3, request_queue_name: "jobs", labels: { t: '"}' } }), inSeconds(-10));
    await park(odd, inSeconds(-5));
    const got: Claim[] = [];
    let calls = 0;
    clock.advance(1000);
    await poll("our own", async () => {
      await broker.moveDue();
      calls++;
      got.push(...(await claim(broker)));
      return got.length === 2;
    });
    expect(got.map(idOf)).toEqual(["ours", "odd"]);
    expect(calls).toBeLessThanOrEqual(3);
    expect(await parked()).toHaveLength(2502);
    expect(await redis.send(["ZSCORE", RETRIES, theirs[7]!])).toBe(1007);
  });

  it("A-61 an idle set is looked at after 1 s, doubling to 30 s, and after 1 s again once there was work", async () => {
    const clock = new VirtualClock(realClock.wall());
    const broker = await begin(clock);
    const looks = async (): Promise<number> => {
      const text = (await redis.send(["INFO", "commandstats"])) as string;
      return Number(/cmdstat_evalsha:calls=(\d+)/.exec(text)?.[1] ?? 0);
    };
    const before = await looks();
    /** The seconds, from now on, at which Redis was asked. */
    async function asked(seconds: number): Promise<number[]> {
      const at: number[] = [];
      for (let second = 1, known = await looks(); second <= seconds; second++) {
        clock.advance(1000);
        await broker.moveDue();
        const now = await looks();
        if (now > known) at.push(second);
        known = now;
      }
      return at;
    }
    expect(await asked(130)).toEqual([1, 2, 4, 8, 16, 32, 62, 92, 122]);
    expect(await looks()).toBe(before + 9);
    await park(envelope("a", { request_queue_name: "jobs" }), inSeconds(-10));
    // 122 + 30 = 152: the entry is found, and the pauses begin anew.
    expect(await asked(40)).toEqual([22, 23, 24, 26, 30, 38]);
    expect(await claim(broker)).toHaveLength(1);
  });

  it("A-61 a retry of its own is not slept through", async () => {
    const clock = new VirtualClock(realClock.wall());
    const broker = await begin(clock);
    for (let second = 0; second < 100; second++) {
      clock.advance(1000);
      await broker.moveDue();
      // Connections whose server does not answer for 5 s are given up: let it answer.
      await redis.send(["PING"]);
    }
    await publish(envelope("a", {}, inSeconds(6000)));
    const [a] = await claimed(broker, 1);
    await broker.settle([retry(a!, realClock.wall() / 1000 - 1)]);
    expect(await broker.moveDue()).toBeLessThanOrEqual(1000);
    expect((await claim(broker)).map(idOf)).toEqual(["a"]);
  });

  it("takes no more retries into memory than somebody claims", async () => {
    const broker = await begin(new VirtualClock(realClock.wall()));
    const clock = new VirtualClock(realClock.wall());
    const eager = await begin(clock);
    for (let at = 0; at < 250; at++) await park(envelope(`m${at}`, { request_queue_name: "jobs" }), inSeconds(-10));
    for (let round = 0; round < 5; round++) {
      clock.advance(1000);
      await eager.moveDue();
    }
    expect(await parked()).toHaveLength(150);
    expect(await claim(eager, 30)).toHaveLength(30);
    clock.advance(1000);
    await eager.moveDue();
    expect(await parked()).toHaveLength(120);
    expect(await claim(broker)).toEqual([]);
  });

  it("what is left in memory at the end waits in Redis for the next", async () => {
    const broker = await begin();
    for (const id of ["a", "b", "c"]) await publish(envelope(id));
    await claimed(broker, 1);
    await poll("the others", async () => (await broker.claim(Q, { max: 0, expired: 0 })).waiting === 2);
    await broker.close();
    expect(await parked()).toHaveLength(3);
    const next = await begin();
    await poll("all three", async () => {
      await next.moveDue();
      return (await next.claim(Q, { max: 0, expired: 0 })).waiting === 3;
    });
  });

  it("knows nothing of backlogs, marks to cancel and leases", async () => {
    const broker = await begin();
    await publish(envelope("a"));
    const claims = await claimed(broker, 1);
    expect(await broker.cancelled(claims)).toEqual([false]);
    expect(await broker.renew(claims)).toEqual([]);
    await broker.reclaim(new Set());
    expect((await broker.backlog(Q)).waiting).toBeNaN();
  });
});
