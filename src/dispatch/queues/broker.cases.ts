import { afterEach, describe, expect, it } from "vitest";
import type { ResultMessage } from "../messages/message.ts";
import { errorResult, parseResult } from "../messages/result.ts";
import type { LeaseSettings, QueueSettings } from "../settings.ts";
import type { Broker, BrokerEvents, Claim, Settlement } from "./broker.ts";
import type { Producer, QueueInspector, SubmitRequest } from "./producer.ts";

/** What a broker is made with for one case. */
export interface CaseSettings {
  readonly queues: readonly QueueSettings[];
  readonly resultQueueName: string;
  readonly leases: LeaseSettings;
  /** Milliseconds. */
  readonly pollInterval: number;
}

/** One empty store with a broker on it. */
export interface BrokerHarness {
  /** Not started. */
  readonly broker: Broker;
  /** Another broker on the same store, as another process has it; not started. */
  peer(): Broker;
  producer(requestQueueName: string, resultQueueName: string): Producer;
  readonly inspector: QueueInspector;
  /** Puts any text into a queue. @param score Unix seconds */
  inject(queueName: string, entry: string, score: number): Promise<void>;
  /** Puts any text into a result queue. */
  injectResult(queueName: string, entry: string): Promise<void>;
  /** What stands in a result queue, oldest first; it stays there. */
  results(queueName: string): Promise<readonly string[]>;
  /** The broker's clock, Unix milliseconds. */
  now(): number | Promise<number>;
  /**
   * Lets time pass until `probe` is true, asking it now and then, at least 20 times. Fails when it is not within `ms`
   * milliseconds (and a good allowance for slow machines, where the clock is real).
   */
  until(what: string, ms: number, probe: () => boolean | Promise<boolean>): Promise<void>;
  /** Ends everything that was made. */
  close(): Promise<void>;
}

/** A queue without anything special. */
export function queueOf(name: string, more: Partial<QueueSettings> = {}): QueueSettings {
  return {
    id: name,
    name,
    workerPoolId: "default",
    inferenceObjective: "",
    igwBaseUrl: "http://127.0.0.1:1",
    requestPathUrl: "/v1/completions",
    labels: {},
    gate: undefined,
    resultQueueName: undefined,
    trustMessageLabels: true,
    allowedEndpoints: undefined,
    maxQueueShare: 1,
    ...more,
  };
}

const LONG: LeaseSettings = { claimTtl: 60_000, reclaimInterval: 5000, maxAttempts: 0 };
const SHORT: LeaseSettings = { ...LONG, claimTtl: 400 };
const NOBODY: ReadonlySet<string> = new Set();
const Q = queueOf("q");

/** Records what a broker reports. */
class Recorder implements BrokerEvents {
  readonly availableIn: string[] = [];
  readonly dead: string[] = [];
  reclaimedCount = 0;

  available({ name }: QueueSettings): void {
    this.availableIn.push(name);
  }
  deadLettered(_queue: QueueSettings, reason: string): void {
    this.dead.push(reason);
  }
  reclaimed(_queue: QueueSettings, count: number): void {
    this.reclaimedCount += count;
  }
  writeRetried(): void {}
}

const ids = (claims: readonly Claim[]): string[] => claims.map(({ message }) => message.request.id);
const ok = (id: string): ResultMessage => ({
  ...errorResult(id, "INFERENCE_ERROR", ""),
  errorCode: "",
  statusCode: 200,
});
const answered = (claim: Claim): Settlement => ({ kind: "result", claim, result: ok(claim.message.request.id) });
const refused = (claim: Claim): Settlement => ({ kind: "refuse", claim, labels: claim.message.routing.labels });
const envelope = (internal: object, data: object, kind = "redis"): string =>
  JSON.stringify({ internal, request_kind: kind, data: { payload: {}, ...data } });

/** The cases that every broker with leases passes. @param make a harness on an empty store */
export function brokerCases(name: string, make: (settings: CaseSettings) => Promise<BrokerHarness>): void {
  describe(`broker cases: ${name}`, () => {
    let harness: BrokerHarness;
    let broker: Broker;
    let producer: Producer;
    let events: Recorder;
    let started: Broker[] = [];

    async function begin(leases: LeaseSettings = LONG, queues: readonly QueueSettings[] = [Q]): Promise<void> {
      harness = await make({ queues, resultQueueName: "results", leases, pollInterval: 500 });
      broker = harness.broker;
      events = new Recorder();
      broker.start(events);
      started = [broker];
      producer = harness.producer("q", "results");
    }

    function startPeer(): Broker {
      const peer = harness.peer();
      peer.start(new Recorder());
      started.push(peer);
      return peer;
    }

    afterEach(async () => {
      await producer?.close();
      for (const each of started) await each.close();
      started = [];
      await harness?.close();
    });

    /** Unix seconds, whole. */
    const inSeconds = async (seconds: number): Promise<number> => Math.floor((await harness.now()) / 1000) + seconds;
    const request = async (id: string, seconds = 600, more: Partial<SubmitRequest> = {}): Promise<SubmitRequest> => ({
      id,
      deadline: await inSeconds(seconds),
      payload: { n: 1 },
      ...more,
    });
    const submit = async (id: string, seconds = 600, more: Partial<SubmitRequest> = {}): Promise<void> =>
      producer.submitRequest(await request(id, seconds, more));
    const claim = async (max: number, by = broker, queue = Q): Promise<readonly Claim[]> =>
      (await by.claim(queue, { max, expired: 0 })).claims;
    const results = async (queueName = "results"): Promise<readonly ResultMessage[]> =>
      (await harness.results(queueName)).map(parseResult);
    const dead = (queueName = "q") => harness.inspector.dead(queueName, 100);
    const retried = async (
      each: Claim,
      seconds: number,
      labels: Readonly<Record<string, string>> = each.message.routing.labels,
    ): Promise<Settlement> => ({
      kind: "retry",
      claim: each,
      due: (await harness.now()) / 1000 + seconds,
      retryCount: each.message.routing.retryCount + 1,
      labels,
    });

    describe("claim and settle", () => {
      it("A-42 the earliest deadline goes first, whatever the order of submission", async () => {
        await begin();
        await submit("late", 900);
        await submit("early", 300);
        await submit("middle", 600);
        expect(ids(await claim(1))).toEqual(["early"]);
        expect(ids(await claim(5))).toEqual(["middle", "late"]);
      });

      it("a claimed message is nobody else's, and its result stands in the result queue once", async () => {
        await begin();
        await submit("a");
        const [mine] = await claim(5);
        expect(await claim(5, startPeer())).toEqual([]);
        expect(await broker.settle([answered(mine!)])).toEqual(["settled"]);
        expect(await results()).toMatchObject([{ id: "a", statusCode: 200 }]);
        expect(await broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0, retries: 0 });
      });

      it("brokers that claim at the same time share the messages out: each exactly once", async () => {
        await begin();
        await producer.submitRequests(await Promise.all(Array.from({ length: 100 }, (_, at) => request(`m${at}`))));
        const brokers = [broker, startPeer(), startPeer()];
        const got: string[] = [];
        for (let more = true; more; ) {
          const rounds = await Promise.all(brokers.map((each) => claim(7, each)));
          more = rounds.some((claims) => claims.length > 0);
          got.push(...rounds.flatMap(ids));
        }
        expect(got).toHaveLength(100);
        expect(new Set(got).size).toBe(100);
      });

      it("claims no more than wanted and says how many wait", async () => {
        await begin();
        for (const id of ["a", "b", "c"]) await submit(id);
        const none = await broker.claim(Q, { max: 0, expired: 0 });
        expect(none.claims).toEqual([]);
        const first = await broker.claim(Q, { max: 2, expired: 0 });
        expect(first.claims).toHaveLength(2);
        if (!Number.isNaN(first.waiting)) expect(first.waiting).toBe(1);
        expect(Math.abs(first.time - (await harness.now()))).toBeLessThan(60_000);
        expect(new Set(first.claims.map(({ id }) => id)).size).toBe(2);
      });

      it("A-32 hands out the payload's own bytes, also after a retry and a refusal", async () => {
        await begin();
        const payload = '{"z":12345678901234567890,"a":1.0,"t":"<&\\/\\u00e9é"}';
        await submit("a", 600, { payload });
        const [first] = await claim(1);
        expect(Buffer.from(first!.message.request.payload!).toString()).toBe(payload);
        await broker.settle([refused(first!)]);
        const [second] = await claim(1);
        await broker.settle([await retried(second!, -1)]);
        await broker.moveDue();
        const [third] = await claim(1);
        expect(Buffer.from(third!.message.request.payload!).toString()).toBe(payload);
      });

      it("settles many at once, each its own way, with an outcome for each in order", async () => {
        await begin();
        for (const id of ["a", "b", "c", "d", "e"]) await submit(id);
        const claims = await claim(5);
        const by = (id: string): Claim => claims.find(({ message }) => message.request.id === id)!;
        expect(await broker.settle([answered(by("e"))])).toEqual(["settled"]);
        const outcomes = await broker.settle([
          answered(by("a")),
          await retried(by("b"), 60),
          answered(by("e")),
          refused(by("c")),
          { kind: "dead", claim: by("d"), reason: "no good", result: errorResult("d", "INVALID_REQUEST", "no good") },
        ]);
        expect(outcomes.map((outcome, at) => (at === 2 ? "again" : outcome))).toEqual([
          "settled",
          "settled",
          "again",
          "settled",
          "settled",
        ]);
        expect(["settled", "fenced"]).toContain(outcomes[2]);
        expect((await results()).map(({ id }) => id)).toEqual(["e", "a", "d"]);
        expect(await dead()).toMatchObject([{ reason: "no good" }]);
        expect(await broker.backlog(Q)).toMatchObject({ waiting: 1, claimed: 0, retries: 1, dead: 1 });
      });

      it("an empty settlement is nothing", async () => {
        await begin();
        expect(await broker.settle([])).toEqual([]);
        expect(await broker.renew([])).toEqual([]);
        expect(await broker.cancelled([])).toEqual([]);
      });

      it("repeating a settlement writes nothing a second time", async () => {
        await begin();
        for (const id of ["a", "b", "c", "d"]) await submit(id);
        const claims = await claim(4);
        const settlements: Settlement[] = [
          answered(claims[0]!),
          await retried(claims[1]!, 60),
          refused(claims[2]!),
          { kind: "dead", claim: claims[3]!, reason: "no", result: ok("d") },
        ];
        await broker.settle(settlements);
        for (const outcome of await broker.settle(settlements)) expect(["settled", "fenced"]).toContain(outcome);
        expect(await results()).toHaveLength(2);
        expect(await broker.backlog(Q)).toMatchObject({ waiting: 1, claimed: 0, retries: 1, dead: 1 });
      });
    });

    describe("expired messages", () => {
      it("A-48 come besides, also when nothing else is wanted, and only as many as asked for", async () => {
        await begin();
        for (const [at, id] of ["x", "y", "z"].entries()) {
          const deadline = await inSeconds(-100 + at);
          await harness.inject("q", envelope({}, { id, deadline }), deadline);
        }
        await submit("live");
        const { claims } = await broker.claim(Q, { max: 0, expired: 2 });
        expect(ids(claims)).toEqual(["x", "y"]);
        expect(claims[0]!.message.request.deadline).toBeLessThan((await harness.now()) / 1000);
      });

      it("A-49 do not stand in the way of those that are not", async () => {
        await begin();
        const deadline = await inSeconds(-100);
        for (let at = 0; at < 50; at++) await harness.inject("q", envelope({}, { id: `x${at}`, deadline }), deadline);
        await submit("a");
        await submit("b");
        const { claims } = await broker.claim(Q, { max: 2, expired: 10 });
        expect(ids(claims).filter((id) => id.startsWith("x"))).toHaveLength(10);
        expect(ids(claims).slice(-2).sort()).toEqual(["a", "b"]);
        expect(ids((await broker.claim(Q, { max: 2, expired: 1000 })).claims)).toHaveLength(40);
      });
    });

    describe("refuse", () => {
      it("A-51 puts a message back exactly where it was", async () => {
        await begin();
        await submit("b", 600);
        await harness.inject("q", envelope({}, { id: "raw", deadline: await inSeconds(900) }), await inSeconds(30));
        await submit("c", 700);
        expect(ids(await claim(1))).toEqual(["raw"]);
        const [b, c] = await claim(2);
        expect(ids([b!, c!])).toEqual(["b", "c"]);
        await broker.settle([refused(c!), refused(b!)]);
        expect(ids(await claim(2))).toEqual(["b", "c"]);
      });

      it("A-51 keeps a score that is not the deadline", async () => {
        await begin();
        const score = await inSeconds(30);
        await harness.inject("q", envelope({}, { id: "raw", deadline: await inSeconds(900) }), score);
        await submit("a", 300);
        await broker.settle((await claim(1)).map(refused));
        expect((await harness.inspector.peek("q", 10)).map((entry) => entry.score)).toEqual([
          score,
          await inSeconds(300),
        ]);
      });

      it("keeps the labels that gates have set", async () => {
        await begin();
        await submit("a", 600, { labels: { tier: "gold" } });
        const [a] = await claim(1);
        await broker.settle([{ kind: "refuse", claim: a!, labels: { tier: "gold", classification: "spot" } }]);
        expect((await claim(1))[0]!.message.routing.labels).toEqual({ tier: "gold", classification: "spot" });
      });

      it("announces nothing to the one that refused: that would be a loop", async () => {
        await begin();
        await submit("a");
        await harness.until("announced", 2000, () => events.availableIn.length > 0);
        const [a] = await claim(1);
        const before = events.availableIn.length;
        await broker.settle([refused(a!)]);
        await broker.backlog(Q);
        expect(events.availableIn.length).toBe(before);
      });
    });

    describe("retry", () => {
      it("A-54 stays away until it is due and comes back at its deadline's place", async () => {
        await begin();
        await submit("a", 300);
        await submit("b", 600);
        const [a] = await claim(1);
        expect(await broker.settle([await retried(a!, 60, { classification: "spot" })])).toEqual(["settled"]);
        const wait = await broker.moveDue();
        expect(wait).toBeGreaterThan(0);
        expect(wait).toBeLessThanOrEqual(500);
        const [b, none] = await claim(2);
        expect(ids([b!])).toEqual(["b"]);
        expect(none).toBeUndefined();
        await broker.settle([refused(b!)]);
        expect(await broker.backlog(Q)).toMatchObject({ waiting: 1, retries: 1 });
      });

      it("A-54 is queued again when it is due, and that is announced", async () => {
        await begin();
        await submit("a", 300);
        await submit("b", 600);
        const [a] = await claim(1);
        await broker.settle([await retried(a!, 0.3, { classification: "spot" })]);
        events.availableIn.length = 0;
        await harness.until("the retry is back", 1000, async () => {
          const wait = await broker.moveDue();
          expect(wait).toBeGreaterThanOrEqual(0);
          return (await broker.backlog(Q)).retries === 0;
        });
        await harness.until("announced", 2000, () => events.availableIn.includes("q"));
        const [again, b] = await claim(2);
        expect(ids([again!, b!])).toEqual(["a", "b"]);
        expect(again!.message.routing).toMatchObject({ retryCount: 1, labels: { classification: "spot" } });
        expect(again!.id).not.toBe(a!.id);
      });

      it("A-54 a raw score does not come back: the deadline is the place", async () => {
        await begin();
        await harness.inject("q", envelope({}, { id: "raw", deadline: await inSeconds(900) }), await inSeconds(30));
        await submit("a", 300);
        const [raw] = await claim(1);
        await broker.settle([await retried(raw!, -1)]);
        await broker.moveDue();
        expect(ids(await claim(2))).toEqual(["a", "raw"]);
      });

      it("A-55 5,000 that are due together all come back", async () => {
        await begin();
        const requests = await Promise.all(Array.from({ length: 5000 }, (_, at) => request(`m${at}`)));
        for (let at = 0; at < 5000; at += 500) await producer.submitRequests(requests.slice(at, at + 500));
        for (let at = 0; at < 10; at++)
          await broker.settle(await Promise.all((await claim(500)).map((each) => retried(each, -1))));
        expect(await broker.backlog(Q)).toMatchObject({ waiting: 0, retries: 5000 });
        await harness.until("all are back", 5000, async () => {
          await broker.moveDue();
          return (await broker.backlog(Q)).waiting === 5000;
        });
        expect(await broker.backlog(Q)).toMatchObject({ waiting: 5000, retries: 0 });
      });

      it("A-56 two movers at once duplicate nothing", async () => {
        await begin();
        for (let at = 0; at < 50; at++) await submit(`m${at}`);
        await broker.settle(await Promise.all((await claim(50)).map((each) => retried(each, -1))));
        const peer = startPeer();
        await Promise.all([broker.moveDue(), peer.moveDue(), broker.moveDue(), peer.moveDue()]);
        const got = ids(await claim(100));
        expect(got).toHaveLength(50);
        expect(new Set(got).size).toBe(50);
      });

      it("returns to the queue it came from, whatever the message says", async () => {
        const other = queueOf("other");
        await begin(LONG, [Q, other]);
        const deadline = await inSeconds(600);
        const routing = { request_queue_name: "q", queue_id: "q" };
        await harness.inject("other", envelope(routing, { id: "a", deadline }), deadline);
        const [a] = await claim(1, broker, other);
        await broker.settle([await retried(a!, -1)]);
        await broker.moveDue();
        expect(await claim(1)).toEqual([]);
        expect(ids(await claim(1, broker, other))).toEqual(["a"]);
      });
    });

    describe("leases", () => {
      /** Time passes until `by` has queued again and claimed what nobody renews. */
      async function takenOver(by: Broker): Promise<Claim> {
        const got: Claim[] = [];
        await harness.until("the lease ran out", 1000, async () => {
          await by.reclaim(NOBODY);
          got.push(...(await claim(1, by)));
          return got.length > 0;
        });
        return got[0]!;
      }

      it("A-44 what a lost process held goes to another", async () => {
        await begin(SHORT);
        await submit("a");
        await claim(1);
        const again = await takenOver(startPeer());
        expect(ids([again])).toEqual(["a"]);
        expect(again.message.routing).toMatchObject({ lostLeases: 1, retryCount: 0 });
      });

      it("A-44 a lease that holds is not touched by anybody else", async () => {
        await begin();
        await submit("a");
        const [a] = await claim(1);
        const peer = startPeer();
        await peer.reclaim(NOBODY);
        expect(await claim(1, peer)).toEqual([]);
        expect(await broker.settle([answered(a!)])).toEqual(["settled"]);
      });

      it("A-45 whoever comes back late finds its lease lost and settles nothing", async () => {
        await begin(SHORT);
        await submit("a");
        const [late] = await claim(1);
        const peer = startPeer();
        const again = await takenOver(peer);
        expect(await broker.settle([answered(late!)])).toEqual(["fenced"]);
        expect(await broker.settle([await retried(late!, -1)])).toEqual(["fenced"]);
        expect(await broker.settle([refused(late!)])).toEqual(["fenced"]);
        const given: Settlement = { kind: "dead", claim: late!, reason: "late", result: ok("a") };
        expect(await broker.settle([given])).toEqual(["fenced"]);
        expect(await broker.renew([late!])).toEqual([late]);
        expect(late!.lost).toBe(true);
        expect(await results()).toEqual([]);
        expect(await dead()).toEqual([]);
        expect(await peer.settle([answered(again)])).toEqual(["settled"]);
        expect(await results()).toHaveLength(1);
        expect(await peer.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0, retries: 0 });
      });

      it("a lease that is renewed outlives one that is not", async () => {
        await begin({ ...LONG, claimTtl: 1500 });
        await submit("kept", 300);
        await submit("left", 600);
        const [kept] = await claim(2);
        const peer = startPeer();
        const got: Claim[] = [];
        await harness.until("one lease ran out", 3000, async () => {
          expect(await broker.renew([kept!])).toEqual([]);
          await peer.reclaim(NOBODY);
          got.push(...(await claim(2, peer)));
          return got.length > 0;
        });
        expect(ids(got)).toEqual(["left"]);
        expect(kept!.lost).toBe(false);
        expect(await broker.settle([answered(kept!)])).toEqual(["settled"]);
      });

      it("a renewal tells the lost from the kept", async () => {
        await begin(SHORT);
        await submit("a", 300);
        const [lost] = await claim(1);
        await takenOver(startPeer());
        await submit("b", 600);
        const [kept] = await claim(1);
        expect(await broker.renew([kept!, lost!])).toEqual([lost]);
        expect([kept!.lost, lost!.lost]).toEqual([false, true]);
      });

      it("reports what it queued again, and that there is something", async () => {
        await begin(SHORT);
        const peer = startPeer();
        for (const id of ["a", "b"]) await submit(id);
        await harness.until("announced", 2000, () => events.availableIn.length > 0);
        await claim(2, peer);
        events.availableIn.length = 0;
        await harness.until("the leases ran out", 1000, async () => {
          await broker.reclaim(NOBODY);
          return events.reclaimedCount > 0;
        });
        expect(events.reclaimedCount).toBe(2);
        await harness.until("announced again", 2000, () => events.availableIn.includes("q"));
      });

      it("a message that loses its lease goes back to its old place", async () => {
        await begin(SHORT);
        await harness.inject("q", envelope({}, { id: "raw", deadline: await inSeconds(900) }), await inSeconds(30));
        await submit("a", 300);
        await claim(1);
        const peer = startPeer();
        await harness.until("the lease ran out", 1000, async () => {
          await peer.reclaim(NOBODY);
          return (await peer.backlog(Q)).waiting === 2;
        });
        expect(ids(await claim(2, peer))).toEqual(["raw", "a"]);
      });

      it("max_attempts: a message that takes its processors with it is given up, and its owner told", async () => {
        await begin({ ...SHORT, maxAttempts: 2 });
        await submit("poison", 600, { resultQueueName: "owner" });
        await claim(1);
        await takenOver(startPeer());
        await harness.until("given up", 1000, async () => {
          await broker.reclaim(NOBODY);
          return (await dead()).length > 0;
        });
        expect(await claim(1)).toEqual([]);
        expect(await results("owner")).toMatchObject([{ id: "poison", errorCode: "INFERENCE_ERROR", statusCode: 0 }]);
        expect((await dead())[0]!.entry).toContain('"poison"');
        expect(events.dead).toHaveLength(1);
        expect(events.dead[0]).toContain("2 times");
        expect(await broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0, dead: 1 });
      });
    });

    describe("entries", () => {
      it("A-30 of all three kinds are read", async () => {
        await begin();
        for (const [at, kind] of ["plain", "redis", "pubsub"].entries()) {
          const deadline = await inSeconds(600 + at);
          await harness.inject("q", envelope({}, { id: kind, deadline }, kind), deadline);
        }
        const claims = await claim(5);
        expect(claims.map(({ message }) => message.kind)).toEqual(["plain", "redis", "pubsub"]);
      });

      it("A-30 A-50 that cannot be read become dead letters; owners are told, and the rest goes on", async () => {
        await begin();
        const soon = await inSeconds(60);
        const bad = [
          "no json",
          JSON.stringify({ internal: { result_queue_name: "owner" }, data: { id: "kindless", deadline: soon } }),
          envelope({}, { id: "odd", deadline: soon }, "carrier-pigeon"),
          envelope({}, { id: "late", deadline: "tomorrow" }),
          "null",
        ];
        for (const [at, entry] of bad.entries()) await harness.inject("q", entry, soon + at);
        await submit("good");
        const got: Claim[] = [];
        await harness.until("the good one comes", 1000, async () => {
          got.push(...(await claim(2)));
          return got.length > 0;
        });
        expect(ids(got)).toEqual(["good"]);
        expect((await dead()).map(({ entry }) => entry).sort()).toEqual([...bad].sort());
        for (const { reason, at } of await dead()) {
          expect(reason).not.toBe("");
          expect(Math.abs(at - (await harness.now()))).toBeLessThan(60_000);
        }
        expect(await results("owner")).toMatchObject([{ id: "kindless", errorCode: "INVALID_REQUEST" }]);
        expect((await results()).map(({ id }) => id).sort()).toEqual(["late", "odd"]);
        expect(events.dead).toHaveLength(5);
        expect(await broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 1, dead: 5 });
      });

      it("A-35 a spoofed queue id and queue name mean nothing; labels count, and the queue's own win", async () => {
        await begin(LONG, [queueOf("q", { id: "mine", labels: { team: "a" } })]);
        const internal = { queue_id: "theirs", request_queue_name: "theirs", labels: { tier: "gold", team: "b" } };
        const deadline = await inSeconds(600);
        await harness.inject("q", envelope(internal, { id: "a", deadline }), deadline);
        const queue = queueOf("q", { id: "mine", labels: { team: "a" } });
        const [a] = await claim(1, broker, queue);
        expect(a!.message.routing).toMatchObject({ queueId: "mine", requestQueueName: "q" });
        expect(a!.message.routing.labels).toEqual({ tier: "gold", team: "a" });
        expect(a!.queue).toBe(queue);
      });

      it("A-35 trust_message_labels false: only the queue's own labels are left", async () => {
        const queue = queueOf("q", { labels: { team: "a" }, trustMessageLabels: false });
        await begin(LONG, [queue]);
        await submit("a", 600, { labels: { classification: "reserved", tier: "gold" } });
        expect((await claim(1, broker, queue))[0]!.message.routing.labels).toEqual({ team: "a" });
      });

      it("A-52 results go where the queue says, else where the message says, else to the common queue", async () => {
        const routed = queueOf("routed", { resultQueueName: "of-queue" });
        await begin(LONG, [Q, routed]);
        const deadline = await inSeconds(600);
        const named = { result_queue_name: "of-message" };
        await harness.inject("routed", envelope(named, { id: "1", deadline }), deadline);
        await harness.inject("q", envelope(named, { id: "2", deadline }), deadline);
        await harness.inject("q", envelope({}, { id: "3", deadline, result_queue_name: "in-data" }), deadline + 1);
        const claims = [...(await claim(5, broker, routed)), ...(await claim(5))];
        expect(await broker.settle(claims.map(answered))).toEqual(["settled", "settled", "settled"]);
        expect((await results("of-queue")).map(({ id }) => id)).toEqual(["1"]);
        expect((await results("of-message")).map(({ id }) => id)).toEqual(["2"]);
        expect((await results()).map(({ id }) => id)).toEqual(["3"]);
        expect(await results("in-data")).toEqual([]);
      });
    });

    describe("cancellation (A-38)", () => {
      it("before the claim: the claim says so", async () => {
        await begin();
        await submit("a", 300);
        await submit("b", 600);
        await producer.cancelRequests(["a", "unknown", ""]);
        const claims = await claim(2);
        expect(claims.map(({ cancelled }) => cancelled)).toEqual([true, false]);
        expect(await broker.cancelled(claims)).toEqual([true, false]);
      });

      it("after the claim: asking tells", async () => {
        await begin();
        await submit("a");
        const claims = await claim(1);
        expect(await broker.cancelled(claims)).toEqual([false]);
        await producer.cancelRequests(["a"]);
        expect(claims[0]!.cancelled).toBe(false);
        expect(await broker.cancelled(claims)).toEqual([true]);
      });

      it("while a retry is parked: it comes back marked, and once it has its result nothing is left", async () => {
        await begin();
        await submit("a");
        const [a] = await claim(1);
        await broker.settle([await retried(a!, -1)]);
        await producer.cancelRequests(["a"]);
        await broker.moveDue();
        const [again] = await claim(1);
        expect(again!.cancelled).toBe(true);
        await broker.settle([{ kind: "result", claim: again!, result: errorResult("a", "CANCELLED", "cancelled") }]);
        expect((await results()).map(({ errorCode }) => errorCode)).toEqual(["CANCELLED"]);
        await producer.cancelRequests(["a"]);
        await submit("a");
        expect((await claim(1))[0]!.cancelled).toBe(false);
      });

      it("after a refusal and after a lost lease the mark is still there", async () => {
        await begin(SHORT);
        await submit("a");
        await producer.cancelRequests(["a"]);
        await broker.settle((await claim(1)).map(refused));
        expect((await claim(1))[0]!.cancelled).toBe(true);
        const peer = startPeer();
        const got: Claim[] = [];
        await harness.until("the lease ran out", 1000, async () => {
          await peer.reclaim(NOBODY);
          got.push(...(await claim(1, peer)));
          return got.length > 0;
        });
        expect(got[0]!.cancelled).toBe(true);
      });

      it("an id submitted again is not hit by the old cancellation", async () => {
        await begin();
        await submit("a");
        await producer.cancelRequests(["a"]);
        await broker.settle((await claim(1)).map(answered));
        await submit("a");
        expect((await claim(1))[0]!.cancelled).toBe(false);
      });

      it("the result of an older submission does not take the mark from a newer one", async () => {
        await begin();
        await submit("a");
        const [old] = await claim(1);
        await submit("a");
        await producer.cancelRequests(["a"]);
        expect(await broker.settle([answered(old!)])).toEqual(["settled"]);
        expect((await claim(1))[0]!.cancelled).toBe(true);
      });
    });

    describe("figures and wake-up", () => {
      it("a submission wakes the dispatcher up, only for its own queue", async () => {
        await begin(LONG, [Q, queueOf("other")]);
        await harness.until("the broker is there", 2000, async () => {
          await broker.check();
          return true;
        });
        await submit("a");
        await harness.until("announced", 2000, () => events.availableIn.includes("q"));
        expect(events.availableIn).not.toContain("other");
      });

      it("a backlog counts what waits, runs, is parked and is dead", async () => {
        await begin();
        expect(await broker.backlog(Q)).toEqual({
          waiting: 0,
          claimed: 0,
          retries: 0,
          dead: 0,
          nextDeadline: Number.NaN,
        });
        for (const [at, id] of ["a", "b", "c", "d"].entries()) await submit(id, 300 + at);
        const [a, b] = await claim(2);
        await broker.settle([await retried(a!, 60)]);
        expect(b).toBeDefined();
        expect(await broker.backlog(Q)).toEqual({
          waiting: 2,
          claimed: 1,
          retries: 1,
          dead: 0,
          nextDeadline: await inSeconds(302),
        });
      });

      it("people see the first entries without claiming them", async () => {
        await begin();
        await submit("b", 600);
        await submit("a", 300);
        const entries = await harness.inspector.peek("q", 1);
        expect(entries).toHaveLength(1);
        expect(JSON.parse(entries[0]!.entry)).toMatchObject({ data: { id: "a" } });
        expect(await claim(5)).toHaveLength(2);
      });

      it("dead letters go back into the queue, the oldest first", async () => {
        await begin();
        await submit("a", 300);
        await submit("b", 600);
        for (const each of await claim(2))
          await broker.settle([{ kind: "dead", claim: each, reason: "x", result: ok("r") }]);
        expect(await harness.inspector.requeueDead("q", 1)).toBe(1);
        expect(ids(await claim(5))).toEqual(["a"]);
        expect(await harness.inspector.requeueDead("q", 100)).toBe(1);
        expect(ids(await claim(5))).toEqual(["b"]);
        expect(await dead()).toEqual([]);
      });
    });

    describe("producer", () => {
      it("takes results in the order they were written, each once", async () => {
        await begin();
        for (const id of ["a", "b", "c"]) await submit(id);
        for (const each of await claim(3)) await broker.settle([answered(each)]);
        expect(await producer.resultQueueDepth()).toBe(3);
        expect((await producer.getResult()).id).toBe("a");
        const others = await Promise.all([producer.getResult(), producer.getResult()]);
        expect(others.map(({ id }) => id).sort()).toEqual(["b", "c"]);
        expect(await producer.resultQueueDepth()).toBe(0);
      });

      it("waits for a result that is not there yet", async () => {
        await begin();
        await submit("a");
        const result = producer.getResult();
        await broker.settle((await claim(1)).map(answered));
        expect(await result).toMatchObject({ id: "a", statusCode: 200 });
      });

      it("stops waiting when told to, and takes no result with it", async () => {
        await begin();
        const end = new AbortController();
        const result = producer.getResult(end.signal);
        end.abort(new Error("enough"));
        await expect(result).rejects.toThrow("enough");
        await expect(producer.getResult(end.signal)).rejects.toThrow("enough");
        await submit("a");
        await broker.settle((await claim(1)).map(answered));
        expect(await producer.getResult()).toMatchObject({ id: "a" });
      });

      it("an entry that is no result is an error, and out of the way", async () => {
        await begin();
        await harness.injectResult("results", "garbage");
        await harness.injectResult("results", JSON.stringify({ payload: "{}" }));
        await harness.injectResult("results", JSON.stringify({ id: "a", payload: "{}" }));
        await expect(producer.getResult()).rejects.toMatchObject({ code: "RESULT_INVALID" });
        await expect(producer.getResult()).rejects.toThrow("result missing 'id' field");
        expect(await producer.getResult()).toMatchObject({ id: "a" });
      });

      it("A-37 queues nothing when one of many is not valid", async () => {
        await begin();
        const good = await request("a");
        await expect(producer.submitRequests([good, { ...good, id: "" }])).rejects.toThrow("request ID is required");
        const late = { ...good, deadline: await inSeconds(-5) };
        await expect(producer.submitRequest(late)).rejects.toMatchObject({
          code: "REQUEST_INVALID",
          message: "deadline has already expired",
        });
        expect(await producer.requestQueueDepth()).toBe(0);
      });

      it("knows depths and clears queues", async () => {
        await begin();
        for (const id of ["a", "b", "c"]) await submit(id);
        await broker.settle((await claim(1)).map(answered));
        expect(await producer.requestQueueDepth()).toBe(2);
        await producer.clearRequestQueue();
        await producer.clearResultQueue();
        expect(await producer.requestQueueDepth()).toBe(0);
        expect(await producer.resultQueueDepth()).toBe(0);
        expect(await claim(5)).toEqual([]);
      });

      it("sends a request to another queue, its result to another result queue", async () => {
        const other = queueOf("other");
        await begin(LONG, [Q, other]);
        await submit("a", 600, { requestQueueName: "other", resultQueueName: "elsewhere" });
        expect(await claim(1)).toEqual([]);
        await broker.settle((await claim(1, broker, other)).map(answered));
        expect(await results("elsewhere")).toHaveLength(1);
      });
    });
  });
}
