import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Broker, BrokerEvents, Claim, Settlement } from "../../src/async/brokers/broker.ts";
import { pubSubBroker } from "../../src/async/brokers/gcp-pubsub/pubsub-broker.ts";
import { errorResult } from "../../src/async/brokers/messages/result.ts";
import type { QueueSettings } from "../../src/async/brokers/settings.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { VirtualClock } from "../../src/base/clock/virtual.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { queueOf } from "../support/brokers/broker.cases.ts";
import { poll } from "../support/poll.ts";
import { PubSubFake, type SubscriptionOptions } from "../support/pubsub-fake.ts";

const EPOCH = 1_800_000_000_000;
const DEADLINE = EPOCH / 1000 + 3600;
const Q = queueOf("requests-sub", { id: "", labels: { team: "a" } });
const NOBODY: ReadonlySet<string> = new Set();

class Recorder {
  available = 0;
  reclaimedCount = 0;
  retried = 0;
  readonly dead: string[] = [];
  readonly events: BrokerEvents = {
    available: () => {
      this.available++;
    },
    deadLettered: (_queue: QueueSettings, reason: string) => {
      this.dead.push(reason);
    },
    reclaimed: (_queue: QueueSettings, count: number) => {
      this.reclaimedCount += count;
    },
    writeRetried: () => {
      this.retried++;
    },
    forgotten: () => {},
    doubted: async () => {},
  };
}

const request = (id: string, more: object = {}): string =>
  JSON.stringify({ id, deadline: DEADLINE, payload: { model: "m" }, ...more });
const idOf = (claim: Claim): string => claim.message.request.id;
const answered = (claim: Claim): Settlement => ({
  kind: "result",
  claim,
  result: { ...errorResult(idOf(claim), "INFERENCE_ERROR", ""), errorCode: "", statusCode: 200 },
});
const retried = (claim: Claim): Settlement => ({ kind: "retry", claim, due: DEADLINE, retryCount: 1, labels: {} });
const refused = (claim: Claim): Settlement => ({ kind: "refuse", claim, labels: {} });

describe("Pub/Sub broker", () => {
  let clock: VirtualClock;
  let fake: PubSubFake;
  let broker: Broker;
  let recorder: Recorder;
  let others: Broker[];

  beforeEach(async () => {
    clock = new VirtualClock(EPOCH);
    fake = await PubSubFake.start(clock);
    fake.topic("requests");
    fake.topic("results");
    recorder = new Recorder();
    others = [];
  });

  afterEach(async () => {
    for (const each of [broker, ...others]) await each.close();
    fake.stop();
  });

  function make(endpoint = fake.endpoint): Broker {
    return pubSubBroker(
      {
        transport: "gcp-pubsub",
        queues: [Q],
        pollInterval: 1000,
        batchCap: undefined,
        leases: { claimTtl: 60_000, reclaimInterval: 5000, maxAttempts: 0 },
        projectId: "p",
        resultTopicId: "results",
      },
      { clock, random: new SeededRandom(1), log: silentLogger, ...(endpoint === "" ? {} : { endpoint }) },
    );
  }

  function begin(options: Partial<SubscriptionOptions> = {}): void {
    fake.subscription("requests-sub", { topic: "requests", ...options });
    broker = make();
    broker.start(recorder.events);
  }

  /** Claims until `count` messages are there. */
  async function claim(count: number, by = broker): Promise<Claim[]> {
    const claims: Claim[] = [];
    await poll(`${count} claims`, async () => {
      claims.push(...(await by.claim(Q, { max: count - claims.length, expired: 0 })).claims);
      return claims.length === count;
    });
    return claims;
  }

  const results = (): { id: string; error_code?: string; status_code?: number }[] =>
    fake.published("results").map((text) => JSON.parse(text));
  /** Lets 2 seconds pass: the lease of the configuration then replaces the service's own. */
  async function leasesMade(): Promise<void> {
    await clock.advanceAsync(2000);
    await poll("leases", () => fake.calls.some((one) => one.request.ackDeadlineSeconds === 60));
  }

  it("A-62 a bare request: its bytes, attributes over metadata, delivery attempt as retry count, time of publication", async () => {
    begin({ deadLetters: true });
    clock.advance(5);
    const text = `{"deadline":${DEADLINE},"id":"a","payload":{"z":12345678901234567890,"a":1.0},"metadata":{"userid":"x","k":"v"},"endpoint":"/v1/embeddings"}`;
    const messageId = fake.publish("requests", text, { userid: "ada", traceparent: "00-1-2-01" });
    const [first] = await claim(1);
    const { message } = first!;
    expect(message.kind).toBe("pubsub");
    expect(Buffer.from(message.request.payload!).toString()).toBe('{"z":12345678901234567890,"a":1.0}');
    expect(message.request.metadata).toEqual({ userid: "ada", k: "v", traceparent: "00-1-2-01" });
    expect(message.request.endpoint).toBe("/v1/embeddings");
    expect(message.routing).toMatchObject({
      retryCount: 0,
      queueId: "",
      requestQueueName: "requests-sub",
      correlationId: messageId,
      labels: { team: "a" },
    });
    expect(first!.publishedAt).toBe(EPOCH + 5);
    expect(first!.id).not.toContain(messageId);

    expect(await broker.settle([retried(first!)])).toEqual(["settled"]);
    const [second] = await claim(1);
    expect(second!.message.routing.retryCount).toBe(1);
    expect(second!.id).not.toBe(first!.id);
  });

  it("A-62 without a dead-letter policy every delivery counts as the first", async () => {
    begin();
    fake.publish("requests", request("a"));
    await broker.settle((await claim(1)).map(retried));
    expect((await claim(1))[0]!.message.routing.retryCount).toBe(0);
  });

  it("a claim never waits for messages; when some come they are announced", async () => {
    begin();
    expect((await broker.claim(Q, { max: 3, expired: 0 })).claims).toEqual([]);
    await poll("the pull", () => fake.waiting("requests-sub") === 1);
    expect(recorder.available).toBe(0);
    fake.publish("requests", request("a"));
    await poll("announced", () => recorder.available === 1);
    expect((await broker.claim(Q, { max: 3, expired: 0 })).claims.map(idOf)).toEqual(["a"]);
  });

  it("A-63 H-11 acknowledges only what is confirmed: a result that cannot be published leaves its message claimed", async () => {
    begin();
    fake.publish("requests", request("a"));
    const [a] = await claim(1);
    fake.fail("Publish", { code: status.UNAVAILABLE, times: 2 });
    const [outcome] = await broker.settle([answered(a!)]);
    expect(outcome).toEqual({ failed: expect.stringContaining("was not published") });
    await broker.settle([answered(a!)]);
    expect(fake.count("Acknowledge")).toBe(0);
    expect(fake.backlog("requests-sub")).toBe(1);
    expect(await broker.settle([answered(a!)])).toEqual(["settled"]);
    expect(results()).toMatchObject([{ id: "a", status_code: 200 }]);
    expect(fake.backlog("requests-sub")).toBe(0);
    expect(recorder.retried).toBe(2);
  });

  it("A-63 nothing is acknowledged while a publication hangs, and what never got confirmed goes back at the end", async () => {
    begin();
    fake.publish("requests", request("a"));
    const [a] = await claim(1);
    const release = fake.hold("Publish");
    const settled = broker.settle([answered(a!)]);
    await poll("the publication", () => fake.count("Publish") === 1);
    expect(fake.count("Acknowledge")).toBe(0);
    fake.fail("Publish", { code: status.INTERNAL });
    release();
    expect(await settled).toEqual([{ failed: expect.any(String) }]);
    await broker.close();
    expect(fake.leased("requests-sub")).toBe(0);
    expect(fake.backlog("requests-sub")).toBe(1);
    expect(results()).toEqual([]);
  });

  it("A-63 a result is published once however often acknowledging it fails", async () => {
    begin();
    fake.publish("requests", request("a"));
    const [a] = await claim(1);
    fake.fail("Acknowledge", { code: status.UNAVAILABLE, times: 3 });
    for (let attempt = 0; attempt < 3; attempt++)
      expect(await broker.settle([answered(a!)])).toEqual([{ failed: expect.any(String) }]);
    expect(await broker.settle([answered(a!)])).toEqual(["settled"]);
    expect(results()).toHaveLength(1);
    expect(fake.backlog("requests-sub")).toBe(0);
  });

  it("A-63 many results travel in one publication and one acknowledgement; one the topic refuses keeps no other", async () => {
    begin();
    for (let at = 0; at < 100; at++) fake.publish("requests", request(`m${at}`));
    const claims = await claim(100);
    fake.fail("Publish", {
      code: status.INVALID_ARGUMENT,
      times: Number.POSITIVE_INFINITY,
      when: ({ messages }) => messages.some(({ data }) => data.includes('"m7"')),
    });
    const outcomes = await broker.settle(claims.slice(0, 50).map(answered));
    expect(outcomes.filter((outcome) => outcome === "settled")).toHaveLength(49);
    expect(outcomes[claims.findIndex((one) => idOf(one) === "m7")]).toEqual({ failed: expect.any(String) });
    const before = [fake.count("Publish"), fake.count("Acknowledge")];
    await broker.settle(claims.slice(50).map(answered));
    expect([fake.count("Publish"), fake.count("Acknowledge")]).toEqual(before.map((count) => count + 1));
    expect(new Set(results().map(({ id }) => id)).size).toBe(99);
    expect(fake.backlog("requests-sub")).toBe(1);
  });

  it("a result that no message can hold is told as such, with its status, instead of being tried for ever", async () => {
    begin();
    fake.publish("requests", request("a"));
    const [a] = await claim(1);
    const payload = Buffer.alloc(10_000_000, "x");
    const settlement = answered(a!) as Extract<Settlement, { kind: "result" }>;
    const outcome = await broker.settle([{ ...settlement, result: { ...settlement.result, payload } }]);
    expect(outcome).toEqual(["settled"]);
    expect(results()).toMatchObject([{ id: "a", status_code: 200, error_code: "INFERENCE_ERROR" }]);
    expect(fake.backlog("requests-sub")).toBe(0);
  });

  it("settles each its own way: refused comes back after 10 s, a retry at once, a dead one ends with its result", async () => {
    begin();
    for (const id of ["a", "b", "c", "d"]) fake.publish("requests", request(id));
    const claims = await claim(4);
    await leasesMade();
    const by = (id: string): Claim => claims.find((one) => idOf(one) === id)!;
    const outcomes = await broker.settle([
      refused(by("a")),
      answered(by("b")),
      { kind: "dead", claim: by("c"), reason: "x", result: errorResult("c", "INVALID_REQUEST", "x") },
      retried(by("d")),
    ]);
    expect(outcomes).toEqual(["settled", "settled", "settled", "settled"]);
    expect(results().map(({ id }) => id)).toEqual(["b", "c"]);
    expect((await claim(1)).map(idOf)).toEqual(["d"]);
    await clock.advanceAsync(9_000);
    expect(fake.leased("requests-sub")).toBe(2);
    await clock.advanceAsync(1_100);
    expect((await claim(1)).map(idOf)).toEqual(["a"]);
    expect(await broker.settle([refused(by("b")), answered(by("c"))])).toEqual(["fenced", "fenced"]);
  });

  it("H-36 refused messages take nobody's place: the others come meanwhile", async () => {
    begin();
    for (let at = 0; at < 20; at++) fake.publish("requests", request(`poor${at}`));
    for (let round = 0; round < 5; round++) await broker.settle((await claim(4)).map(refused));
    fake.publish("requests", request("rich"));
    expect((await claim(1)).map(idOf)).toEqual(["rich"]);
  });

  it("A-64 H-12 a budget that flaps ends no pull, and messages get through as with a fixed one", async () => {
    begin();
    const rounds = async (budget: (round: number) => number): Promise<number> => {
      for (let at = 0; at < 600; at++) fake.publish("requests", request(`m${at}`));
      let round = 0;
      for (let done = 0; done < 600; round++) {
        const heard = recorder.available;
        const { claims } = await broker.claim(Q, { max: budget(round), expired: 0 });
        done += claims.length;
        await broker.settle(claims.map(answered));
        if (claims.length < budget(round) && done < 600)
          await poll("more", () => recorder.available > heard || fake.backlog("requests-sub") === 0);
      }
      return round;
    };
    const fixed = await rounds(() => 30);
    const flapping = await rounds((round) => (round % 2 === 0 ? 50 : 10));
    expect(flapping).toBeLessThanOrEqual(fixed * 1.1);
    expect(fake.backlog("requests-sub")).toBe(0);
  });

  it("A-64 a pull that waits is neither ended nor doubled when less or nothing is wanted; more is asked for besides", async () => {
    begin();
    const ask = (max: number): Promise<unknown> => broker.claim(Q, { max, expired: 0 });
    await ask(5);
    await poll("the pull", () => fake.waiting("requests-sub") === 1);
    for (const max of [1, 0, 5, 3]) await ask(max);
    await ask(12);
    await poll("the second pull", () => fake.waiting("requests-sub") === 2);
    expect(fake.calls.filter(({ method }) => method === "Pull").map((one) => one.request.maxMessages)).toEqual([5, 7]);
    for (let at = 0; at < 20; at++) fake.publish("requests", request(`m${at}`));
    // Nobody asks any more: what was asked for is all that is taken.
    await poll("messages", () => recorder.available === 2);
    expect(fake.leased("requests-sub")).toBeLessThanOrEqual(12);
  });

  it("no more than 1,000 messages are asked for or lie here, however many are wanted", async () => {
    begin();
    await broker.claim(Q, { max: 5000, expired: 0 });
    await poll("the pull", () => fake.waiting("requests-sub") === 1);
    await broker.claim(Q, { max: 5000, expired: 0 });
    for (let at = 0; at < 1200; at++) fake.publish("requests", request("late", { deadline: DEADLINE - 7200 }));
    // Expired messages that nobody takes are no use, and use up the room all the same.
    for (let round = 0; round < 200 && fake.leased("requests-sub") < 1000; round++)
      await poll("more", async () => {
        const { claims } = await broker.claim(Q, { max: 5000, expired: 0 });
        expect(claims).toEqual([]);
        return recorder.available > round;
      });
    await broker.claim(Q, { max: 5000, expired: 0 });
    expect(fake.leased("requests-sub")).toBe(1000);
    expect(fake.waiting("requests-sub")).toBe(0);
    expect((await broker.claim(Q, { max: 0, expired: 5000 })).claims).toHaveLength(1000);
  });

  it("what comes after the budget fell stays leased here, is renewed, and goes out when there is room again", async () => {
    begin();
    await broker.claim(Q, { max: 3, expired: 0 });
    await poll("the pull", () => fake.waiting("requests-sub") === 1);
    fake.publish("requests", request("a"));
    await poll("announced", () => recorder.available === 1);
    await leasesMade();
    for (let minute = 0; minute < 3; minute++) {
      const before = fake.count("ModifyAckDeadline");
      await clock.advanceAsync(20_000);
      await poll("renewed", () => fake.count("ModifyAckDeadline") > before);
      expect((await broker.claim(Q, { max: 0, expired: 5 })).claims).toEqual([]);
    }
    expect((await broker.claim(Q, { max: 1, expired: 0 })).claims.map(idOf)).toEqual(["a"]);
    expect(fake.count("Pull")).toBe(1);
  });

  it("A-48 what passes its deadline in the buffer comes besides, also while the gate is closed", async () => {
    begin();
    await broker.claim(Q, { max: 5, expired: 0 });
    fake.publish("requests", request("late", { deadline: DEADLINE - 7200 }));
    await poll("announced", () => recorder.available === 1);
    expect((await broker.claim(Q, { max: 1, expired: 0 })).claims).toEqual([]);
    expect((await broker.claim(Q, { max: 0, expired: 1 })).claims.map(idOf)).toEqual(["late"]);
  });

  it("A-65 H-29 a message delivered again while it is in work takes no slot and no second inference; one end settles both", async () => {
    begin();
    const messageId = fake.publish("requests", request("a"));
    const [a] = await claim(1);
    for (let again = 0; again < 3; again++) {
      fake.deliverAgain("requests-sub", messageId);
      await poll("delivered again", async () => {
        await broker.claim(Q, { max: 1, expired: 0 });
        return fake.leased("requests-sub") === again + 2;
      });
    }
    fake.publish("requests", request("b"));
    expect((await claim(1)).map(idOf)).toEqual(["b"]);
    expect(await broker.settle([answered(a!)])).toEqual(["settled"]);
    expect(results().map(({ id }) => id)).toEqual(["a"]);
    await poll("acknowledged", () => fake.backlog("requests-sub") === 1);
  });

  it("A-65 two messages with one request id are two claims, each with its own end", async () => {
    begin();
    fake.publish("requests", request("twin"));
    fake.publish("requests", request("twin"));
    const claims = await claim(2);
    expect(new Set(claims.map(({ id }) => id)).size).toBe(2);
    expect(await broker.settle([answered(claims[0]!)])).toEqual(["settled"]);
    expect(fake.backlog("requests-sub")).toBe(1);
    expect(await broker.settle([answered(claims[1]!)])).toEqual(["settled"]);
    expect(results()).toHaveLength(2);
  });

  it("leases are extended until the end, and run out when this process is gone", async () => {
    begin({ ackDeadlineSeconds: 10 });
    fake.publish("requests", request("a"));
    const [a] = await claim(1);
    await leasesMade();
    for (let beat = 0; beat < 6; beat++) {
      await clock.advanceAsync(30_000);
      expect(await broker.renew([a!])).toEqual([]);
    }
    expect(fake.leased("requests-sub")).toBe(1);
    await clock.advanceAsync(61_000);
    expect(fake.leased("requests-sub")).toBe(0);
  });

  it("the first extension is repeated when it fails", async () => {
    begin({ ackDeadlineSeconds: 10 });
    fake.fail("ModifyAckDeadline", { code: status.UNAVAILABLE, times: 2 });
    fake.publish("requests", request("a"));
    await claim(1);
    await poll("the third try", async () => {
      await clock.advanceAsync(100);
      return fake.count("ModifyAckDeadline") === 3;
    });
    await clock.advanceAsync(15_000);
    expect(fake.leased("requests-sub")).toBe(1);
  });

  it("with exactly-once delivery a lost lease is noticed: its result is discarded, whoever has the message now answers", async () => {
    begin({ exactlyOnce: true });
    fake.publish("requests", request("a"));
    const [a] = await claim(1);
    await leasesMade();
    await clock.advanceAsync(61_000);
    const peer = make();
    others.push(peer);
    peer.start(new Recorder().events);
    const [taken] = await claim(1, peer);
    expect(await broker.renew([a!])).toEqual([a]);
    expect(a!.lost).toBe(true);
    expect(await broker.settle([answered(a!)])).toEqual(["fenced"]);
    expect(await peer.settle([answered(taken!)])).toEqual(["settled"]);
    expect(results()).toHaveLength(1);
  });

  it("renewing while the service is away rejects and loses nothing", async () => {
    begin();
    fake.publish("requests", request("a"));
    const [a] = await claim(1);
    await leasesMade();
    fake.fail("ModifyAckDeadline", { code: status.UNAVAILABLE });
    await expect(broker.renew([a!])).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    expect(a!.lost).toBe(false);
    expect(await broker.renew([a!])).toEqual([]);
  });

  it("a claim whose answer nobody took goes back, not at the first look", async () => {
    begin();
    fake.publish("requests", request("a"));
    const [a] = await claim(1);
    await broker.reclaim(new Set([a!.id]));
    await broker.reclaim(NOBODY);
    expect(fake.leased("requests-sub")).toBe(1);
    await broker.reclaim(NOBODY);
    expect(recorder.reclaimedCount).toBe(1);
    const [again] = await claim(1);
    expect(idOf(again!)).toBe("a");
    expect(await broker.settle([answered(a!)])).toEqual(["fenced"]);
  });

  it("A-50 unreadable messages end: owners that are known are told, and the rest goes on", async () => {
    begin();
    fake.publish("requests", "no json");
    fake.publish("requests", Buffer.from([0x7b, 0xff, 0x7d]));
    fake.publish("requests", JSON.stringify({ id: "known", deadline: "tomorrow" }));
    fake.publish("requests", request("good"));
    expect((await claim(1)).map(idOf)).toEqual(["good"]);
    await poll("all three", () => recorder.dead.length === 3);
    expect(results()).toMatchObject([{ id: "known", error_code: "INVALID_REQUEST" }]);
    expect(fake.backlog("requests-sub")).toBe(1);
  });

  it("A-50 an unreadable message whose owner could not be told comes again", async () => {
    begin();
    fake.fail("Publish", { code: status.UNAVAILABLE });
    fake.publish("requests", JSON.stringify({ id: "known", deadline: "tomorrow" }));
    await broker.claim(Q, { max: 1, expired: 0 });
    await poll("the attempt", () => fake.count("Publish") === 1);
    expect(recorder.dead).toEqual([]);
    await clock.advanceAsync(10_100);
    await poll("told", async () => {
      await broker.claim(Q, { max: 1, expired: 0 });
      return recorder.dead.length === 1;
    });
    expect(results()).toHaveLength(1);
    expect(fake.backlog("requests-sub")).toBe(0);
  });

  it("lost answers: of a pull, its messages come again; of an acknowledgement, nothing is published twice", async () => {
    begin({ exactlyOnce: true });
    fake.publish("requests", request("a"));
    fake.fail("Pull", { code: status.UNAVAILABLE, answerLost: true });
    await poll("the failure", () =>
      broker.claim(Q, { max: 1, expired: 0 }).then(
        () => false,
        () => true,
      ),
    );
    expect(fake.leased("requests-sub")).toBe(1);
    await clock.advanceAsync(10_100);
    const [a] = await claim(1);
    fake.fail("Acknowledge", { code: status.UNAVAILABLE, answerLost: true });
    expect(await broker.settle([answered(a!)])).toEqual([{ failed: expect.any(String) }]);
    expect(await broker.settle([answered(a!)])).toEqual(["settled"]);
    expect(results()).toHaveLength(1);
    expect(fake.backlog("requests-sub")).toBe(0);
  });

  it("a lost answer of a publication repeats the result, under the same id", async () => {
    begin();
    fake.publish("requests", request("a"));
    const [a] = await claim(1);
    fake.fail("Publish", { code: status.DEADLINE_EXCEEDED, answerLost: true });
    expect(await broker.settle([answered(a!)])).toEqual([{ failed: expect.any(String) }]);
    expect(await broker.settle([answered(a!)])).toEqual(["settled"]);
    expect(results().map(({ id }) => id)).toEqual(["a", "a"]);
  });

  it("a message that comes again before the answer to its return is a claim of its own", async () => {
    begin();
    fake.publish("requests", request("a"));
    const [a] = await claim(1);
    fake.fail("ModifyAckDeadline", { code: status.UNAVAILABLE, answerLost: true });
    const again = claim(1);
    expect(await broker.settle([retried(a!)])).toEqual([{ failed: expect.any(String) }]);
    const release = fake.hold("ModifyAckDeadline");
    const settled = broker.settle([retried(a!)]);
    await poll("the return", () => fake.count("ModifyAckDeadline") === 2);
    const [second] = await again;
    expect(second!.id).not.toBe(a!.id);
    release();
    expect(await settled).toEqual(["settled"]);
    expect(await broker.settle([answered(second!)])).toEqual(["settled"]);
    expect(fake.backlog("requests-sub")).toBe(0);
  });

  it("PUBSUB_EMULATOR_HOST leads to an emulator, as with Google's client everywhere", async () => {
    fake.subscription("requests-sub", { topic: "requests" });
    const before = process.env["PUBSUB_EMULATOR_HOST"];
    process.env["PUBSUB_EMULATOR_HOST"] = fake.endpoint;
    try {
      broker = make("");
      broker.start(recorder.events);
      fake.publish("requests", request("a"));
      expect((await claim(1)).map(idOf)).toEqual(["a"]);
    } finally {
      if (before === undefined) delete process.env["PUBSUB_EMULATOR_HOST"];
      else process.env["PUBSUB_EMULATOR_HOST"] = before;
    }
  });

  it("a service that is away rejects claims, is asked again after a pause, and is used when it is back", async () => {
    begin();
    fake.publish("requests", request("held"));
    const held = await claim(1);
    fake.fail("Pull", { code: status.UNAVAILABLE, times: 3 });
    fake.publish("requests", request("a"));
    let refusals = 0;
    const claims: Claim[] = [];
    await poll("the message", async () => {
      try {
        claims.push(...(await broker.claim(Q, { max: 1, expired: 0 })).claims);
      } catch (error) {
        expect(error).toMatchObject({ code: "BROKER_UNAVAILABLE" });
        const pulls = fake.count("Pull");
        await broker.claim(Q, { max: 1, expired: 0 });
        // A call behind which any pull would have arrived.
        await broker.renew(held);
        expect(fake.count("Pull")).toBe(pulls);
        refusals++;
      }
      await clock.advanceAsync(500);
      return claims.length > 0;
    });
    expect(refusals).toBe(3);
    expect(claims.map(idOf)).toEqual(["a"]);
  });

  it("A-66 ready after a receive, not ready after a failed one, else as the subscription answers", async () => {
    begin();
    // The first look-up waits for the client to be loaded, and has a limit of its own.
    await poll("the first look-up", () => broker.check().then(() => true));
    fake.fail("GetSubscription", { code: status.UNAVAILABLE });
    await expect(broker.check()).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    fake.fail("GetSubscription", { code: status.PERMISSION_DENIED });
    await broker.check();

    fake.publish("requests", request("a"));
    await claim(1);
    const lookUps = fake.count("GetSubscription");
    await broker.check();
    expect(fake.count("GetSubscription")).toBe(lookUps);

    await clock.advanceAsync(20_000);
    fake.fail("Pull", { code: status.PERMISSION_DENIED });
    await poll("the failed pull", () =>
      broker.claim(Q, { max: 1, expired: 0 }).then(
        () => false,
        () => true,
      ),
    );
    await expect(broker.check()).rejects.toThrow(/cannot receive from subscription requests-sub/);
    await clock.advanceAsync(30_000);
    await broker.check();
    expect(fake.count("GetSubscription")).toBe(lookUps + 1);
  });

  it("a subscription that does not exist is not ready, and says which", async () => {
    fake.subscription("another", { topic: "requests" });
    broker = make();
    broker.start(recorder.events);
    await poll("the answer", () => broker.check().catch((error) => /requests-sub.*not found/i.test(String(error))));
  });

  it("closing gives back what was fetched but not claimed, and what was claimed but not settled", async () => {
    begin();
    await broker.claim(Q, { max: 3, expired: 0 });
    for (const id of ["a", "b", "c"]) fake.publish("requests", request(id));
    await poll("announced", () => recorder.available > 0);
    await claim(1);
    await broker.close();
    expect(fake.leased("requests-sub")).toBe(0);
    expect(fake.backlog("requests-sub")).toBe(3);
    expect(fake.waiting("requests-sub")).toBe(0);
  });

  it("has nothing of its own to move, to cancel or to count without Cloud Monitoring", async () => {
    begin();
    fake.publish("requests", request("a"));
    const claims = await claim(1);
    expect(await broker.cancelled(claims)).toEqual([false]);
    expect(await broker.moveDue()).toBe(1000);
    expect((await broker.backlog(Q)).waiting).toBeNaN();
  });
});
