import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { NO_EVENTS } from "../../../test/support/brokers/sqlite/fixture.cases.ts";
import { queueSettings } from "../../../test/support/dispatch/harness.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import type { Claim, Settlement } from "../brokers/broker.ts";
import { errorResult } from "../brokers/messages/result.ts";
import type { LineProducer, LineRequest } from "./batch-queue.ts";
import { LineBroker } from "./line-broker.ts";
import { LineQueue } from "./line-queue.ts";

const EPOCH = 1_800_000_000_000;
const NOW = EPOCH / 1000;
const LANE = queueSettings("lane");

let folder: string;
let path: string;
let clock: VirtualClock;
let queue: LineQueue;
let broker: LineBroker;
let announced: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-lines-"));
  path = join(folder, "in");
  writeFileSync(path, "");
  clock = new VirtualClock(EPOCH);
  queue = new LineQueue(clock);
  broker = new LineBroker(queue, { queues: [LANE], pollInterval: 1000 }, { clock, log: silentLogger });
  announced = [];
  broker.start({ ...NO_EVENTS, available: ({ name }) => announced.push(name) });
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A request whose body stands at the end of the file. */
function request(id: string, deadline = NOW + 600): LineRequest {
  const payload = `{"id":"${id}","é":1}`;
  const start = places;
  appendFileSync(path, payload);
  places += Buffer.byteLength(payload);
  return { id, deadline, payload, endpoint: "/v1/embeddings", place: { path, start, length: places - start } };
}
let places = 0;
beforeEach(() => {
  places = 0;
});

const claim = async (max: number, expired = 0): Promise<readonly Claim[]> =>
  (await broker.claim(LANE, { max, expired })).claims;
const idsOf = (claims: readonly Claim[]): string[] => claims.map(({ message }) => message.request.id);
const answer = (each: Claim, body = ""): Settlement => ({
  kind: "result",
  claim: each,
  result: { ...errorResult(each.message.request.id, "CANCELLED", ""), payload: Buffer.from(body) },
});
const producer = (results = "results"): Promise<LineProducer> => queue.producer(LANE.name, results);

describe("the queue of lines", () => {
  it("gives each line with its body, the earliest deadline first, and within a batch in order", async () => {
    await (await producer("late")).submitRequests([request("l1", NOW + 900), request("l2", NOW + 900)]);
    await (await producer("early")).submitRequests([request("e1"), request("e2")]);
    expect(announced).toEqual(["lane", "lane"]);
    const claims = await claim(3);
    expect(idsOf(claims)).toEqual(["e1", "e2", "l1"]);
    const { message, publishedAt, cancelled } = claims[1]!;
    expect(Buffer.from(message.request.payload!).toString()).toBe('{"id":"e2","é":1}');
    expect(message.request).toMatchObject({ deadline: NOW + 600, created: NOW, endpoint: "/v1/embeddings" });
    expect(message.routing).toMatchObject({ requestQueueName: "lane", resultQueueName: "early", retryCount: 0 });
    expect(message.text).toBe('{"id":"e2","é":1}');
    expect([publishedAt, cancelled]).toEqual([EPOCH, false]);
    expect(await broker.backlog(LANE)).toMatchObject({ waiting: 1, claimed: 3, retries: 0, nextDeadline: NOW + 900 });
  });

  it("keeps results until they are removed, and each line until it has one", async () => {
    await (await producer()).submitRequests([request("a"), request("b")]);
    const [a, b] = await claim(2);
    expect(await broker.settle([answer(a!, "x")])).toEqual(["settled"]);
    // The second result of a line is dropped.
    expect(await broker.settle([answer(a!, "y")])).toEqual(["fenced"]);
    expect(await queue.outstanding(["a", "b", "c"])).toEqual([false, true, false]);
    const inbox = queue.inbox("results");
    const [result] = await inbox.read(10);
    expect(result).toMatchObject({ id: "a", payload: Buffer.from("x") });
    await broker.settle([answer(b!)]);
    await inbox.remove();
    await inbox.remove();
    expect(await inbox.read(10)).toMatchObject([{ id: "b" }]);
    // Another one who goes on with the batch finds what was not removed.
    expect(await queue.inbox("results").read(10)).toHaveLength(1);
    await inbox.remove();
    expect(await queue.inbox("results").read(10)).toEqual([]);
  });

  it("puts a line back before the later ones, and drops the outcome of the earlier claim", async () => {
    await (await producer()).submitRequests([request("a"), request("b")]);
    const [first] = await claim(1);
    expect(await broker.settle([{ kind: "refuse", claim: first!, labels: { tier: "x" } }])).toEqual(["settled"]);
    const [again] = await claim(1);
    expect(again!.message).toMatchObject({ request: { id: "a" }, routing: { labels: { tier: "x" } } });
    expect(await broker.settle([answer(first!)])).toEqual(["fenced"]);
    expect(await broker.settle([answer(again!)])).toEqual(["settled"]);
  });

  it("parks a line until its next attempt, whatever becomes of the wall clock", async () => {
    await (await producer()).submitRequests([request("a"), request("b"), request("c")]);
    const [a, b] = await claim(2);
    const retry = (each: Claim, seconds: number): Settlement => ({
      ...{ kind: "retry", claim: each, due: NOW + seconds, since: EPOCH, retryCount: 2, labels: {} },
    });
    await broker.settle([retry(a!, 30), retry(b!, 10)]);
    expect(await broker.backlog(LANE)).toMatchObject({ waiting: 1, claimed: 0, retries: 2 });
    clock.set(3_600_000);
    expect(await broker.moveDue()).toBe(1000);
    await clock.advanceAsync(9500);
    expect(await broker.moveDue()).toBe(500);
    await clock.advanceAsync(500);
    announced = [];
    await broker.moveDue();
    expect(announced).toEqual(["lane"]);
    clock.set(-3_600_000);
    const claims = await claim(9);
    expect(idsOf(claims)).toEqual(["b", "c"]);
    expect(claims[0]!.message.routing.retryCount).toBe(2);
    expect(await broker.backlog(LANE)).toMatchObject({ waiting: 0, claimed: 2, retries: 1 });
  });

  it("takes back what no dispatcher has, and marks the rest as cancelled", async () => {
    await (await producer()).submitRequests([request("a"), request("b"), request("c")]);
    const [a] = await claim(1);
    const [b] = await claim(1);
    await broker.settle([{ kind: "retry", claim: b!, due: NOW + 1, since: EPOCH, retryCount: 1, labels: {} }]);
    expect(await queue.withdraw(["a", "b", "c", "x"])).toEqual([false, true, true, false]);
    expect(await broker.cancelled([a!])).toEqual([true]);
    await clock.advanceAsync(2000);
    await broker.moveDue();
    expect(await claim(9)).toEqual([]);
    await broker.settle([{ kind: "refuse", claim: a!, labels: {} }]);
    expect(await claim(9)).toMatchObject([{ cancelled: true }]);
    expect(await broker.backlog(LANE)).toMatchObject({ waiting: 0, claimed: 1, retries: 0 });
  });

  it("gives lines past their deadline only to those who ask for such", async () => {
    await (await producer("early")).submitRequests([request("e", NOW + 5)]);
    await (await producer("late")).submitRequests([request("l")]);
    await clock.advanceAsync(6000);
    expect(idsOf(await claim(9))).toEqual(["l"]);
    expect(idsOf(await claim(0, 9))).toEqual(["e"]);
  });

  it("claims no lines of a batch whose results nobody takes, and all of the others", async () => {
    await (await producer("full")).submitRequests([request("f1"), request("f2"), request("f3")]);
    const [first, second] = await claim(2);
    await broker.settle([answer(first!, "x".repeat(9 * 1024 * 1024)), answer(second!, "y")]);
    await (await producer("other")).submitRequests([request("o")]);
    expect(idsOf(await claim(9))).toEqual(["o"]);
    const inbox = queue.inbox("full");
    expect(await inbox.read(10)).toHaveLength(1);
    announced = [];
    await inbox.remove();
    expect(announced).toEqual(["lane"]);
    expect(idsOf(await claim(9))).toEqual(["f3"]);
  });

  it("tries a line again whose body cannot be read, and gives the others meanwhile", async () => {
    const gone = { ...request("a"), place: { path: join(folder, "none"), start: 0, length: 1 } };
    const short = { ...request("b"), place: { path, start: 1_000_000, length: 1 } };
    await (await producer("gone")).submitRequests([gone]);
    await (await producer("good")).submitRequests([short, request("c")]);
    expect(idsOf(await claim(9))).toEqual(["c"]);
    writeFileSync(gone.place.path, "1");
    await clock.advanceAsync(5000);
    await broker.moveDue();
    expect(idsOf(await claim(9))).toEqual(["a"]);
  });

  it("gives no line from the time on that its owner has named, nor lets one go that waited so long", async () => {
    queue.allow(clock.now() + 5000);
    await (await producer()).submitRequests([request("a"), request("b")]);
    const [first] = await claim(1);
    clock.advance(4999);
    expect(await broker.cancelled([first!])).toEqual([false]);
    clock.advance(1);
    expect(await claim(9)).toEqual([]);
    await expect(broker.cancelled([first!])).rejects.toThrow("another process may have the batches by now");
    announced = [];
    queue.allow(clock.now() + 5000);
    expect(announced).toEqual(["lane"]);
    queue.allow(clock.now() + 6000);
    expect([announced, idsOf(await claim(9)), await broker.cancelled([first!])]).toEqual([["lane"], ["b"], [false]]);
  });

  it("forgets a batch that has ended, and no other one", async () => {
    const [done, left] = [await producer("done"), await producer("left")];
    await done.submitRequests([request("a")]);
    await left.submitRequests([request("b")]);
    await broker.settle([answer((await claim(1))[0]!)]);
    const inbox = queue.inbox("done");
    await inbox.read(1);
    await inbox.remove();
    await done.close();
    await left.close();
    expect(idsOf(await claim(9))).toEqual(["b"]);
  });
});
