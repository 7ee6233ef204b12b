import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Broker, Claim } from "../../src/async/brokers/broker.ts";
import { FENCED, MOVE, SETTLE } from "../../src/async/brokers/redis-sortedset/scripts.ts";
import { SettleBatch } from "../../src/async/brokers/redis-sortedset/settle-batch.ts";
import type { RedisSortedSetSettings } from "../../src/async/brokers/settings.ts";
import type { Redis } from "../../src/base/redis/connection.ts";
import { queueOf } from "../support/brokers/broker.cases.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import {
  answered,
  direct,
  envelope,
  idsOf,
  inSeconds,
  keepingLog,
  LEASES,
  parked,
  producerOn,
  Q,
  type Reports,
  refused,
  resultIds,
  settingsOf,
  started,
} from "./setup.ts";

let server: RunningRedis;
let redis: Redis;
let broker: Broker;
let reports: Reports;
let others: Broker[] = [];

beforeAll(async () => {
  server = await startRedis();
  redis = await direct(server.url);
});

afterAll(async () => {
  redis?.close();
  await server?.stop();
});

beforeEach(async () => {
  await redis.send(["FLUSHALL"]);
  ({ broker, reports } = await started(settingsOf(server.url)));
});

afterEach(async () => {
  for (const each of [broker, ...others]) await each.close();
  others = [];
});

async function another(more: Partial<RedisSortedSetSettings>): Promise<{ broker: Broker; reports: Reports }> {
  const made = await started(settingsOf(server.url, more));
  others.push(made.broker);
  return made;
}

const add = (entry: string, score: number | string, queue = "q") => redis.send(["ZADD", queue, String(score), entry]);
const claim = async (max: number, expired = 0): Promise<readonly Claim[]> =>
  (await broker.claim(Q, { max, expired })).claims;
const scores = async (queue = "q") => (await redis.send(["ZRANGE", queue, "0", "-1", "WITHSCORES"])) as unknown[];

describe("what other programs write", () => {
  it("A-30 an envelope as the Go producer writes it: routing in order, names repeated in data, text kept", async () => {
    const deadline = inSeconds(3600);
    const payload = '{"max_tokens":16,"model":"m","prompt":"a \\u003c b \\u0026 c","seed":12345678901234567}';
    const entry =
      `{"internal":{"request_token":"0123456789abcdef0123456789abcdef","request_queue_name":"q","result_queue_name":"mine",` +
      `"labels":{"classification":"batch","tier":"1"}},"request_kind":"redis","data":{"id":"req-1","created":${deadline - 60},` +
      `"deadline":${deadline},"payload":${payload},"metadata":{"tenant":"a"},"headers":{"X-Trace":"1"},"endpoint":"/v1/chat/completions",` +
      `"request_queue_name":"q","result_queue_name":"mine"}}`;
    await add(entry, deadline);
    const [found] = await claim(1);
    expect(found!.message.request).toMatchObject({
      id: "req-1",
      deadline,
      metadata: { tenant: "a" },
      headers: { "X-Trace": "1" },
      endpoint: "/v1/chat/completions",
    });
    expect(Buffer.from(found!.message.request.payload!).toString()).toBe(payload);
    expect(await broker.settle([answered(found!)])).toEqual(["settled"]);
    const [result] = (await redis.send(["LRANGE", "mine", "0", "-1"])) as string[];
    expect(JSON.parse(result!)).toEqual({ id: "req-1", payload: '{"error":""}' });
  });

  it("A-58 a consumer that pops from the same queue: each message goes to one of the two", async () => {
    const deadline = inSeconds(3600);
    for (let i = 0; i < 300; i++) await add(envelope({}, { id: `m${i}`, deadline }), deadline);
    const popped: string[] = [];
    const claimed: string[] = [];
    const popAll = async (): Promise<void> => {
      for (;;) {
        const [entry] = (await redis.send(["ZPOPMIN", "q"])) as string[];
        if (entry === undefined) return;
        popped.push((JSON.parse(entry) as { data: { id: string } }).data.id);
      }
    };
    const claimAll = async (): Promise<void> => {
      for (;;) {
        const claims = await claim(3);
        if (claims.length === 0) return;
        claimed.push(...idsOf(claims));
        // Some go back, for whoever comes next.
        if (claimed.length < 60) await broker.settle([refused(claims.at(-1)!)]).then(() => claimed.pop());
        await broker.settle(claims.map(answered));
      }
    };
    await Promise.all([popAll(), claimAll()]);
    const results = await resultIds(redis);
    expect(new Set([...popped, ...results]).size).toBe(300);
    expect(popped.length + results.length).toBe(300);
    expect([...claimed].sort()).toEqual([...results].sort());
    expect(popped.length).toBeGreaterThan(0);
    expect(results.length).toBeGreaterThan(0);
  });
});

describe("which entries a claim takes", () => {
  it("a score below the present is no deadline when the deadline inside lies ahead", async () => {
    for (let i = 0; i < 5; i++) await add(envelope({}, { id: `p${i}`, deadline: inSeconds(600) }), 5 - i);
    expect(idsOf(await claim(2, 10))).toEqual(["p4", "p3"]);
    expect(idsOf(await claim(0, 10))).toEqual([]);
    expect(idsOf(await claim(10, 0))).toEqual(["p2", "p1", "p0"]);
  });

  it("a deadline in the payload is not mistaken for the request's own", async () => {
    const past = inSeconds(-100);
    const data = { payload: { deadline: past, note: '"deadline":1' }, id: "tricky", deadline: inSeconds(600) };
    await add(JSON.stringify({ internal: {}, request_kind: "redis", data }), past + 1);
    expect(idsOf(await claim(0, 10))).toEqual([]);
    expect(idsOf(await claim(1, 0))).toEqual(["tricky"]);
  });

  it("one whose payload names the score as deadline goes back when it would be too much", async () => {
    const past = inSeconds(-100);
    const data = (id: string) => ({ payload: { deadline: past }, id, deadline: inSeconds(600) });
    for (const id of ["a", "b", "c"])
      await add(JSON.stringify({ internal: {}, request_kind: "redis", data: data(id) }), past);
    expect(idsOf(await claim(1, 10))).toHaveLength(1);
    expect(await broker.backlog(Q)).toMatchObject({ waiting: 2, claimed: 1 });
    expect(idsOf(await claim(2, 10))).toHaveLength(2);
  });

  it("past their deadline but with a score ahead they come as what they are", async () => {
    await add(envelope({}, { id: "late", deadline: inSeconds(-5) }), inSeconds(600));
    const { claims, time } = await broker.claim(Q, { max: 1, expired: 0 });
    expect(claims[0]!.message.request.deadline * 1000).toBeLessThan(time);
  });

  it("A-48 A-49 10,000 expired entries are purged besides, and live ones come with the very first claim", async () => {
    const past = inSeconds(-1000);
    for (let i = 0; i < 10_000; i += 1000) {
      const entries = Array.from({ length: 1000 }, (_, k) => [
        String(past + (i % 7)),
        envelope({}, { id: `x${i + k}`, deadline: past + (i % 7) }),
      ]);
      await redis.send(["ZADD", "q", ...entries.flat()]);
    }
    const soon = inSeconds(600);
    for (let i = 0; i < 20; i++) await add(envelope({}, { id: `live${i}`, deadline: soon }), soon);
    const first = await claim(20, 256);
    expect(idsOf(first).filter((id) => id.startsWith("live"))).toHaveLength(20);
    await broker.settle(first.map(answered));
    for (;;) {
      const claims = await claim(20, 256);
      if (claims.length === 0) break;
      expect(claims.length).toBeLessThanOrEqual(256);
      await broker.settle(claims.map(answered));
    }
    const results = await resultIds(redis);
    expect(results).toHaveLength(10_020);
    expect(new Set(results).size).toBe(10_020);
    expect(await broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0 });
  });

  it("takes no more than 1,000 of each sort and 4 MiB at once, whatever is asked for", async () => {
    const deadline = inSeconds(600);
    const entries = Array.from({ length: 1500 }, (_, i) => [String(deadline), envelope({}, { id: `m${i}`, deadline })]);
    await redis.send(["ZADD", "q", ...entries.flat()]);
    expect(await claim(5000)).toHaveLength(1000);
    await redis.send(["FLUSHALL"]);
    const big = "x".repeat(1024 * 1024);
    for (let i = 0; i < 6; i++) await add(envelope({}, { id: `m${i}`, deadline, payload: { big } }), deadline + i);
    expect(idsOf(await claim(6))).toEqual(["m0", "m1", "m2", "m3"]);
    expect(idsOf(await claim(6))).toEqual(["m4", "m5"]);
  });
});

describe("scores", () => {
  it.each(["1234567890.123456789", "0.1", "-17.5", "3e300", "inf", "-inf"])(
    "A-51 a refusal restores %s to the last bit",
    async (score) => {
      const entry = envelope({ labels: { tier: "1" } }, { id: "a", deadline: inSeconds(600) });
      await add(entry, score);
      const before = await scores();
      await broker.settle((await claim(1)).map(refused));
      expect(await scores()).toEqual(before);
      expect(await redis.send(["ZRANGE", "q", "0", "-1"])).toEqual([entry]);
    },
  );
});

describe("entries that are none", () => {
  it("A-50 bytes that are no text become a dead letter as they are, and do not stop the others", async () => {
    const garbage = Buffer.from([0xff, 0xfe, 0x22, 0x0a, 0x5c, 0x00]);
    const deadline = inSeconds(600);
    await redis.send(["ZADD", "q", "1", garbage]);
    await redis.send(["ZADD", "retries", "1", garbage]);
    await add(envelope({ request_queue_name: "q" }, { id: "a", deadline }), 1, "retries");
    await broker.moveDue();
    expect(idsOf(await claim(1, 5))).toEqual(["a"]);
    expect(reports.dead).toHaveLength(1);
    for (const key of ["q:dead", "retries:dead"]) {
      const [letter] = (await redis.send(["LRANGE", key, "0", "-1"], true)) as [Buffer];
      expect(letter.includes(Buffer.from([0xff, 0xfe]))).toBe(true);
      expect(JSON.parse(letter.toString())).toMatchObject({ reason: expect.stringContaining("not JSON") });
    }
    expect(await redis.send(["ZCARD", "retries"])).toBe(0);
  });

  it("A-50 retries without a queue, or whose queue is none, become dead letters; others' queues get theirs", async () => {
    const deadline = inSeconds(600);
    await redis.send(["SET", "text", "1"]);
    const back = (id: string, queue: string) => envelope({ request_queue_name: queue }, { id, deadline });
    for (const [id, queue] of [
      ["lost", ""],
      ["wrong", "text"],
      ["theirs", "queue-of-another-deployment"],
      ["ours", "q"],
    ])
      await add(back(id!, queue!), 1, "retries");
    await broker.moveDue();
    const letters = ((await redis.send(["LRANGE", "retries:dead", "0", "-1"])) as string[]).map(
      (letter) => JSON.parse(letter) as { entry: string; reason: string; at: number },
    );
    expect(letters.map(({ reason }) => reason).sort()).toEqual([
      "the entry names no queue to return to",
      "the key text of its queue holds another type",
    ]);
    expect(await scores("queue-of-another-deployment")).toEqual([
      [back("theirs", "queue-of-another-deployment"), deadline],
    ]);
    expect(idsOf(await claim(5))).toEqual(["ours"]);
  });
});

describe("A-47 keys of another type", () => {
  async function three(): Promise<readonly Claim[]> {
    const deadline = inSeconds(600);
    await redis.send(["SET", "poisoned", "1"]);
    for (const [i, result_queue_name] of ["good", "poisoned", "good"].entries())
      await add(envelope({ result_queue_name }, { id: `m${i}`, deadline }), deadline + i);
    return claim(3);
  }

  it("a list of results: the others are written once, this one stands beside its entry", async () => {
    const claims = await three();
    expect(await broker.settle(claims.map(answered))).toEqual(["settled", "dead-lettered", "settled"]);
    expect(await broker.settle(claims.map(answered))).toEqual(["fenced", "fenced", "fenced"]);
    expect(await resultIds(redis, "good")).toEqual(["m0", "m2"]);
    const letters = ((await redis.send(["LRANGE", "q:dead", "0", "-1"])) as string[]).map((each) => JSON.parse(each));
    expect(letters).toHaveLength(1);
    expect(letters[0].reason).toBe("the key poisoned for its result holds another type");
    expect(JSON.parse(letters[0].result)).toMatchObject({ id: "m1" });
    expect(JSON.parse(letters[0].entry)).toMatchObject({ data: { id: "m1" } });
    expect(await broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0, dead: 1 });
  });

  it("the dead letters as well: it stays claimed and says why, until that is mended", async () => {
    const claims = await three();
    await redis.send(["SET", "q:dead", "1"]);
    const outcomes = await broker.settle(claims.map(answered));
    expect(outcomes).toEqual(["settled", { failed: expect.stringContaining("WRONGTYPE") }, "settled"]);
    expect(await broker.backlog(Q)).toMatchObject({ claimed: 1, dead: Number.NaN });
    await redis.send(["DEL", "q:dead"]);
    expect(await broker.settle([answered(claims[1]!)])).toEqual(["dead-lettered"]);
  });

  it("the set of retries: the retry stays claimed, results beside it are written", async () => {
    const [first, , third] = await three();
    await redis.send(["SET", "retries", "1"]);
    const outcomes = await broker.settle([parked(first!, 1), answered(third!)]);
    expect(outcomes).toEqual([{ failed: expect.stringContaining("WRONGTYPE") }, "settled"]);
    await expect(broker.moveDue()).rejects.toThrow("WRONGTYPE");
    await redis.send(["DEL", "retries"]);
    expect(await broker.settle([parked(first!, 1)])).toEqual(["settled"]);
  });

  it("the queue, its claims or its leases: nothing leaves the queue", async () => {
    const deadline = inSeconds(600);
    const entry = envelope({}, { id: "a", deadline });
    for (const key of ["{q}:claims", "{q}:leases"]) {
      await redis.send(["FLUSHALL"]);
      await add(entry, deadline);
      await redis.send(["SET", key, "1"]);
      await expect(claim(1)).rejects.toThrow("WRONGTYPE");
      expect(await redis.send(["ZRANGE", "q", "0", "-1"])).toEqual([entry]);
      expect(await redis.send(["DBSIZE"])).toBe(2);
    }
    await redis.send(["FLUSHALL"]);
    await redis.send(["SET", "q", "1"]);
    await expect(claim(1)).rejects.toThrow("WRONGTYPE");
  });

  it("no memory left: claims fail without harm, results are written when there is some again", async () => {
    const claims = await three();
    await add(envelope({}, { id: "more", deadline: inSeconds(900) }), inSeconds(900));
    await redis.send(["CONFIG", "SET", "maxmemory", "1"]);
    await expect(claim(1)).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    const outcomes = await broker.settle([answered(claims[0]!)]).catch((error: Error) => [error.message]);
    expect(JSON.stringify(outcomes)).toContain("OOM");
    await redis.send(["CONFIG", "SET", "maxmemory", "0"]);
    expect(await broker.settle([answered(claims[0]!)])).toEqual(["settled"]);
    expect(await resultIds(redis, "good")).toEqual(["m0"]);
    expect(idsOf(await claim(5))).toEqual(["more"]);
  });
});

describe("A-38 cancel marks", () => {
  const token = "f".repeat(32);

  it("are found wherever the id stands in the entry, and count for this submission only", async () => {
    const deadline = inSeconds(600);
    const spaced = (id: string, own: string) =>
      `{ "data": { "payload": {"id":"other"}, "deadline": ${deadline}, "id": "${id}" },` +
      ` "request_kind": "plain", "internal": { "request_token": "${own}" } }`;
    await redis.send([
      "MSET",
      "request-cancel:a",
      token,
      "request-cancel:other",
      token,
      'request-cancel:quo"te',
      token,
    ]);
    await add(spaced("a", token), deadline);
    await add(spaced("b", token), deadline + 1);
    await add(spaced("a", "0".repeat(32)), deadline + 2);
    await add(envelope({ request_token: token }, { id: 'quo"te', deadline }), deadline + 3);
    await add(envelope({}, { id: "a", deadline }), deadline + 4);
    const claims = await claim(10);
    expect(claims.map(({ cancelled }) => cancelled)).toEqual([true, false, false, true, false]);
    expect(await broker.cancelled(claims)).toEqual([true, false, false, true, false]);
  });

  it("A-37 one transaction (async-processor 5.2.2): the mark of an earlier submission goes, token until the deadline, entry by deadline", async () => {
    const producer = await producerOn(redis);
    const deadline = inSeconds(100);
    await redis.send(["SET", "request-cancel:a", token]);
    await producer.submitRequest({ id: "a", deadline, payload: { n: 1 }, labels: { tier: "1" } });
    const first = await redis.send(["GET", "request-active:a"]);
    expect(first).toMatch(/^[0-9a-f]{32}$/);
    expect(await redis.send(["EXISTS", "request-cancel:a"])).toBe(0);
    const left = Number(await redis.send(["TTL", "request-active:a"]));
    expect(left).toBeGreaterThan(90);
    expect(left).toBeLessThanOrEqual(100);
    const [[entry, score]] = (await scores()) as [[string, number]];
    expect(score).toBe(deadline);
    expect(JSON.parse(entry)).toMatchObject({
      internal: { request_token: first, request_queue_name: "q", result_queue_name: "results", labels: { tier: "1" } },
      request_kind: "redis",
      data: { id: "a", deadline, payload: { n: 1 }, request_queue_name: "q", result_queue_name: "results" },
    });
    await producer.submitRequest({ id: "a", deadline, payload: {} });
    expect(await redis.send(["GET", "request-active:a"])).not.toBe(first);
    await producer.cancelRequests(["a", "unknown"]);
    expect(Number(await redis.send(["TTL", "request-cancel:a"]))).toBeGreaterThan(604_000);
    expect(await redis.send(["EXISTS", "request-cancel:unknown"])).toBe(0);
    // Either none of a transaction or all of it.
    await redis.send(["DEL", "q"]);
    await redis.send(["SET", "q", "1"]);
    await expect(producer.submitRequest({ id: "b", deadline, payload: {} })).rejects.toThrow("WRONGTYPE");
    await producer.close();
    expect(await redis.send(["PING"])).toBe("PONG");
  });
});

describe("leases", () => {
  it("A-45 A-57 a claim that was taken over is fenced by its id alone, also after it was settled elsewhere", async () => {
    const { broker: peer } = await another({ leases: { ...LEASES, claimTtl: 50 } });
    await add(envelope({ request_token: "t" }, { id: "a", deadline: inSeconds(600) }), inSeconds(600));
    await redis.send(["SET", "request-active:a", "t"]);
    const late = (await peer.claim(Q, { max: 1, expired: 0 })).claims;
    let again: readonly Claim[] = [];
    await poll("taken over", async () => {
      await broker.reclaim(new Set());
      again = await claim(1);
      return again.length > 0;
    });
    expect(reports.reclaimed_).toBe(1);
    expect(await broker.settle([answered(again[0]!)])).toEqual(["settled"]);
    expect(await peer.settle([answered(late[0]!)])).toEqual(["fenced"]);
    expect(await resultIds(redis)).toEqual(["a"]);
    expect(((await redis.send(["KEYS", "*"])) as string[]).sort()).toEqual(["results", "{q}:owners"]);
  });

  it("a lease that is renewed while it is being reclaimed stays with its owner", async () => {
    await add(envelope({}, { id: "a", deadline: inSeconds(600) }), inSeconds(600));
    const [mine] = await claim(1);
    const late = new SettleBatch(settingsOf(server.url));
    late.requeue(Q, mine!.id, "as it was read before the renewal");
    late.bury(Q, mine!.id, "given up", { named: "", runOut: true });
    expect(await redis.run(SETTLE, late.keys, late.args)).toEqual([FENCED, FENCED]);
    expect(await broker.settle([answered(mine!)])).toEqual(["settled"]);
    expect(((await redis.send(["KEYS", "*"])) as string[]).sort()).toEqual(["results", "{q}:owners"]);
  });

  it("A-56 a mover that was slow does not queue again what is done by now", async () => {
    const entry = envelope({ request_queue_name: "q" }, { id: "a", deadline: inSeconds(600) });
    await add(entry, 1, "retries");
    await broker.moveDue();
    await broker.settle((await claim(1)).map(answered));
    const args = [entry, "3", String(inSeconds(600)), ""];
    expect(await redis.run(MOVE, ["retries", "retries:dead", "q"], args)).toEqual([0, 0]);
    expect(((await redis.send(["KEYS", "*"])) as string[]).sort()).toEqual(["results", "{q}:owners"]);
  });

  it("leases and claims that other hands have torn apart are mended", async () => {
    const { broker: peer } = await another({ leases: { ...LEASES, claimTtl: 50 } });
    const deadline = inSeconds(600);
    for (const id of ["a", "b"]) await add(envelope({}, { id, deadline }), deadline);
    await peer.claim(Q, { max: 2, expired: 0 });
    await redis.send(["DEL", "{q}:leases"]);
    await redis.send(["ZADD", "{q}:leases", "1", "a lease without a claim"]);
    await poll("both are back", async () => {
      await peer.reclaim(new Set());
      return (await broker.backlog(Q)).waiting === 2;
    });
    expect(await redis.send(["EXISTS", "{q}:leases", "{q}:claims"])).toBe(0);
  });

  it("hundreds that ran out at once come back in one round", async () => {
    const { broker: peer } = await another({ leases: { ...LEASES, claimTtl: 1 } });
    const deadline = inSeconds(600);
    const entries = Array.from({ length: 700 }, (_, i) => [String(deadline), envelope({}, { id: `m${i}`, deadline })]);
    await redis.send(["ZADD", "q", ...entries.flat()]);
    expect((await peer.claim(Q, { max: 700, expired: 0 })).claims).toHaveLength(700);
    await poll("all leases ran out", async () => {
      await Promise.all([broker.reclaim(new Set()), broker.reclaim(new Set())]);
      return (await broker.backlog(Q)).waiting === 700;
    });
    expect(reports.reclaimed_).toBe(700);
  });
});

describe("requests that llm-d-async claimed (async-processor 5.2.8)", () => {
  /** A claim as llm-d-async keeps it. @param left seconds of its lease */
  async function theirs(key: string, entry: string, left: number): Promise<void> {
    await redis.send(["HSET", "q:claimed", key, entry]);
    await redis.send(["HSET", "q:claim-owners", key, "an owner"]);
    await redis.send(["ZADD", "q:claims-idx", String(inSeconds(left)), key]);
  }

  it("come back to their places, unchanged, once nothing renews them; their owner can no longer settle them", async () => {
    const deadline = inSeconds(600);
    const abandoned = envelope(
      { request_token: "t" },
      { id: "a", deadline, payload: { n: 12345678901234567n.toString() } },
    );
    await theirs("a:t", abandoned, -2);
    await redis.send(["HSET", "q:claimed", "a:t:score", "17"]);
    await theirs("b:t", envelope({ request_token: "t" }, { id: "b", deadline }), 60);
    await theirs("c:t", "no JSON", -2);
    await redis.send(["ZADD", "q:claims-idx", "1", "a lease without a claim"]);
    await Promise.all([broker.reclaim(new Set()), broker.reclaim(new Set())]);
    expect(reports.reclaimed_).toBe(2);
    expect(await scores()).toEqual([
      ["no JSON", 0],
      [abandoned, deadline],
    ]);
    expect(await redis.send(["HKEYS", "q:claimed"])).toEqual(["b:t"]);
    expect(await redis.send(["HKEYS", "q:claim-owners"])).toEqual(["b:t"]);
    expect(await redis.send(["ZRANGE", "q:claims-idx", "0", "-1"])).toEqual(["b:t"]);
    expect(idsOf(await claim(2, 2))).toEqual(["a"]);
    expect(reports.dead).toHaveLength(1);
  });

  it("come back by the thousand in one round", async () => {
    const deadline = inSeconds(600);
    for (let i = 0; i < 600; i++) await theirs(`m${i}`, envelope({}, { id: `m${i}`, deadline }), -2);
    await broker.reclaim(new Set());
    expect((await broker.backlog(Q)).waiting).toBe(600);
    expect(await redis.send(["EXISTS", "q:claimed", "q:claim-owners", "q:claims-idx"])).toBe(0);
  });

  it.each([
    [
      "an access list",
      ["ACL", "SETUSER", "default", "resetkeys", "~q", "~q:dead", "~{q}:*", "~results", "~retries", "~request-*"],
    ],
    ["another program's use of the keys", ["LPUSH", "q:claimed", "x"]],
  ])(
    "do not matter where %s forbids the keys: the log says so once, and own leases are reclaimed",
    async (_, command) => {
      const { log, lines } = keepingLog();
      const { broker: peer } = await started(settingsOf(server.url, { leases: { ...LEASES, claimTtl: 1 } }), log);
      others.push(peer);
      const deadline = inSeconds(600);
      await add(envelope({}, { id: "a", deadline }), deadline);
      await redis.send(["ZADD", "q:claims-idx", "1", "x"]);
      await peer.claim(Q, { max: 1, expired: 0 });
      await redis.send(command);
      try {
        await poll("the claim is back", async () => {
          await peer.reclaim(new Set());
          return (await broker.backlog(Q)).waiting === 1;
        });
        await peer.reclaim(new Set());
      } finally {
        await redis.send(["ACL", "SETUSER", "default", "allkeys"]);
      }
      expect(lines.filter(({ level }) => level === "warn").map(({ message }) => message)).toEqual([
        "cannot take over requests that llm-d-async claimed; Sluice does not try again",
      ]);
    },
  );
});

describe("wake-up", () => {
  const woken = async (what: string, act: () => Promise<unknown>): Promise<void> => {
    const before = reports.available_;
    await act();
    await poll(`woken ${what}`, () => reports.available_ > before, 5000);
  };
  let number = 0;
  const fresh = () => add(envelope({}, { id: `w${number++}`, deadline: inSeconds(600) }), inSeconds(600));

  it("by any program that adds to the queue: after a claim, a refusal, a retry, a reclaim, and by a flush", async () => {
    await woken("at first", fresh);
    const claims = await claim(1);
    await woken("after a claim", fresh);
    await broker.settle(claims.map(refused));
    await woken("after a refusal", fresh);
    const [parkedOne] = await claim(3);
    await broker.settle([parked(parkedOne!, 1)]);
    await woken("by a retry", () => broker.moveDue());
    await claim(3);
    await broker.reclaim(new Set());
    await woken("after a reclaim", fresh);
    await claim(3);
    await woken("by a flush", () => redis.send(["FLUSHALL"]));
  });

  it("only for its own queue, and not by what it does itself", async () => {
    const mine = queueOf("mine");
    const heard: string[] = [];
    const { broker: own, reports: ownReports } = await another({ queues: [mine, Q] });
    ownReports.available = (queue?: { name: string }) => {
      heard.push(queue!.name);
    };
    await add("x", 1, "mine");
    await poll("woken", () => heard.length > 0);
    heard.length = 0;
    const { claims } = await own.claim(mine, { max: 1, expired: 1 });
    expect(claims).toEqual([]);
    await own.check();
    expect(heard).toEqual([]);
  });

  it("P-2 an idle broker sends nothing", async () => {
    const sent = async () =>
      Number(/total_commands_processed:(\d+)/.exec(String(await redis.send(["INFO", "stats"])))?.[1]);
    await claim(1);
    const before = await sent();
    for (let i = 0; i < 500; i++) await redis.send(["PING"]);
    expect((await sent()) - before).toBe(501);
  });

  it("a server without announcements is polled, said once; a claim says how many wait", async () => {
    const plain = await startRedis({ args: ["--rename-command", "CLIENT", ""] });
    const { log, lines } = keepingLog();
    const { broker: polling } = await started(settingsOf(plain.url), log);
    const direct_ = await direct(plain.url);
    try {
      const deadline = inSeconds(600);
      for (const id of ["a", "b"]) await direct_.send(["ZADD", "q", String(deadline), envelope({}, { id, deadline })]);
      const { claims, waiting } = await polling.claim(Q, { max: 1, expired: 0 });
      expect([claims.length, waiting]).toEqual([1, 1]);
      expect(await polling.settle(claims.map(refused))).toEqual(["settled"]);
      expect(lines.filter(({ message }) => message.includes("polls the queues"))).toHaveLength(1);
    } finally {
      await polling.close();
      direct_.close();
      await plain.stop();
    }
  });
});

describe("round trips", () => {
  it("P-3 fewer than two per message under load, both ways together", async () => {
    const deadline = inSeconds(600);
    const entries = Array.from({ length: 2000 }, (_, i) => [String(deadline), envelope({}, { id: `m${i}`, deadline })]);
    await redis.send(["ZADD", "q", ...entries.flat()]);
    const reads = async () =>
      Number(/total_reads_processed:(\d+)/.exec(String(await redis.send(["INFO", "stats"])))?.[1]);
    const before = await reads();
    for (;;) {
      const claims = await claim(16);
      if (claims.length === 0) break;
      await broker.settle(claims.map(answered));
    }
    expect(await resultIds(redis)).toHaveLength(2000);
    expect(((await reads()) - before) / 2000).toBeLessThan(0.5);
  });
});
