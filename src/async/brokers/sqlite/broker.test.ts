import { renameSync, rmSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  type BrokerHarness,
  brokerCases,
  type CaseSettings,
  queueOf,
} from "../../../../test/support/brokers/broker.cases.ts";
import { CaseFolder, NO_EVENTS } from "../../../../test/support/brokers/sqlite/fixture.cases.ts";
import { LogLines } from "../../../../test/support/gates/gate-fakes.cases.ts";
import { poll } from "../../../../test/support/poll.ts";
import type { Clock } from "../../../base/clock/clock.ts";
import { realClock } from "../../../base/clock/real.ts";
import type { Broker, Claim, Settlement } from "../broker.ts";
import { errorResult } from "../messages/result.ts";
import type { Producer, SubmitRequest } from "../queue-client.ts";
import { sqliteBroker } from "./broker.ts";
import { sqliteProducer } from "./producer.ts";
import { SqliteInspector } from "./queue-client.ts";

/** As somebody does who changes the file by hand. */
function inject(raw: DatabaseSync, queueName: string, entry: string, score: number): void {
  raw.prepare("INSERT OR IGNORE INTO queues (name) VALUES (?)").run(queueName);
  const id = raw.prepare("SELECT id FROM queues WHERE name = ?").get(queueName)!["id"]!;
  const message = raw.prepare("INSERT INTO messages (queue, score, published, request) VALUES (?, ?, 0, '')");
  const { lastInsertRowid } = message.run(id, score);
  raw.prepare("INSERT INTO entries (seq, body) VALUES (?, ?)").run(lastInsertRowid, entry);
}

async function harness(settings: CaseSettings): Promise<BrokerHarness> {
  const folder = new CaseFolder();
  const { path, clock } = folder;
  const sqlite = { ...folder.settings(), ...settings };
  const broker = sqliteBroker(sqlite, folder);
  const inspector = new SqliteInspector(path, folder);
  let raw = new DatabaseSync(path);
  return {
    broker,
    peer: () => sqliteBroker(sqlite, folder),
    producer: (requestQueueName, resultQueueName) =>
      sqliteProducer({ path, requestQueueName, resultQueueName }, folder),
    inspector,
    inject: async (queueName, entry, score) => inject(raw, queueName, entry, score),
    async injectResult(queueName, entry) {
      raw.prepare("INSERT INTO results (queue, body) VALUES (?, ?)").run(queueName, entry);
    },
    async results(queueName) {
      const rows = raw.prepare("SELECT body FROM results WHERE queue = ? ORDER BY seq").all(queueName);
      return rows.map(({ body }) => String(body));
    },
    async wipe() {
      raw.close();
      for (const end of ["", "-wal", "-shm"]) rmSync(path + end, { force: true });
      // Made by the process that looks first.
      await broker.check();
      raw = new DatabaseSync(path);
    },
    now: () => clock.wall(),
    setClock: (ms) => clock.set(ms),
    async until(what, ms, probe) {
      // Virtual time for leases and retries, real time for what the file system tells.
      for (let step = 0; step < 20; step++) {
        if (await probe()) return;
        await clock.advanceAsync(ms / 20);
      }
      await poll(what, probe);
    },
    async close() {
      inspector.close();
      raw.close();
      folder.remove();
    },
  };
}

brokerCases("sqlite", harness);

describe("sqlite broker", () => {
  const q = queueOf("q");
  let folder: CaseFolder;
  let broker: Broker;
  let producer: Producer;
  let available: number;
  let repeated: number;

  beforeEach(() => {
    folder = new CaseFolder();
    broker = sqliteBroker(folder.settings(), folder);
    available = 0;
    repeated = 0;
    broker.start({ ...NO_EVENTS, available: () => available++, writeRetried: () => repeated++ });
    producer = sqliteProducer({ path: folder.path, requestQueueName: "q", resultQueueName: "results" }, folder);
  });

  afterEach(async () => {
    await broker.close();
    await producer.close();
    folder.remove();
  });

  const request = (id: string): SubmitRequest => ({ id, deadline: folder.inSeconds(600), payload: {} });
  const submit = (count: number): Promise<void> =>
    producer.submitRequests(Array.from({ length: count }, (_, at) => request(`m${at}`)));
  const claim = async (max: number): Promise<readonly Claim[]> => (await broker.claim(q, { max, expired: 0 })).claims;
  const answered = (each: Claim): Settlement => ({
    kind: "result",
    claim: each,
    result: errorResult(each.message.request.id, "CANCELLED", "cancelled"),
  });

  it("no call changes more than 512 rows in one go, however many are wanted", async () => {
    await submit(1200);
    const first = await broker.claim(q, { max: 10_000, expired: 10_000 });
    expect(first.claims).toHaveLength(512);
    expect(first.waiting).toBe(688);
    const claims = [...first.claims, ...(await claim(10_000)), ...(await claim(10_000))];
    expect(claims).toHaveLength(1200);
    folder.clock.advance(40_000);
    expect(await broker.renew(claims)).toEqual([]);
    folder.clock.advance(40_000);
    await broker.reclaim(new Set());
    expect((await broker.backlog(q)).claimed).toBe(1200);
    const outcomes = await broker.settle(claims.map(answered));
    expect(outcomes).toHaveLength(1200);
    expect(new Set(outcomes)).toEqual(new Set(["settled"]));
    expect(await producer.resultQueueDepth()).toBe(1200);
    await producer.clearResultQueue();
    expect(await producer.resultQueueDepth()).toBe(0);
    const raw = new DatabaseSync(folder.path);
    for (const table of ["messages", "entries", "results", "dead"])
      expect(raw.prepare(`SELECT * FROM ${table} LIMIT 1`).all()).toEqual([]);
    raw.close();
  });

  it("any number of callers wait for results, and leave nothing behind when they stop", async () => {
    await submit(600);
    const results = Array.from({ length: 600 }, () => producer.getResult());
    for (const max of [512, 88]) await broker.settle((await claim(max)).map(answered));
    expect(new Set((await Promise.all(results)).map(({ id }) => id)).size).toBe(600);
    const end = new AbortController();
    const waiting = producer.getResult(end.signal);
    await poll("it waits", () => folder.clock.pending === 1);
    end.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    expect(folder.clock.pending).toBe(0);
  });

  it("a flood of unreadable entries is cleared away in portions, and the rest is announced", async () => {
    const raw = new DatabaseSync(folder.path);
    raw.exec("BEGIN");
    for (let at = 0; at < 3000; at++) inject(raw, "q", "garbage", folder.inSeconds(60));
    raw.exec("COMMIT");
    await producer.submitRequest(request("good"));
    await poll("announced", () => available > 0);
    available = 0;
    expect(await claim(1000)).toEqual([]);
    expect((await broker.backlog(q)).dead).toBe(4 * 512);
    await poll("announced again", () => available > 0);
    expect((await claim(1000)).map(({ message }) => message.request.id)).toEqual(["good"]);
    expect(await broker.backlog(q)).toMatchObject({ dead: 3000, claimed: 1, waiting: 0 });
    raw.close();
  });

  it("a settlement that cannot be written does not hold up the others", async () => {
    await submit(3);
    const claims = await claim(3);
    const bad: Settlement = { kind: "retry", claim: claims[1]!, due: Number.NaN, retryCount: 1, labels: {} };
    const outcomes = await broker.settle([answered(claims[0]!), bad, answered(claims[2]!)]);
    expect([outcomes[0], outcomes[2]]).toEqual(["settled", "settled"]);
    expect(outcomes[1]).toMatchObject({ failed: expect.stringContaining("messages.until") });
    expect(repeated).toBe(1);
    expect(await broker.backlog(q)).toMatchObject({ claimed: 1, waiting: 0 });
  });

  it("while another process holds the lock calls say so; nothing is lost, and then they work", async () => {
    await submit(2);
    const [a] = await claim(1);
    // Its attempts take their pauses by a clock that runs.
    const hurried = sqliteBroker(folder.settings(), { ...folder.deps, clock: realClock });
    const other = new DatabaseSync(folder.path);
    other.exec("BEGIN IMMEDIATE");
    const outcomes = await Promise.allSettled([
      hurried.claim(q, { max: 1, expired: 0 }),
      hurried.settle([answered(a!)]),
      hurried.renew([a!]),
    ]);
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "BROKER_UNAVAILABLE" } });
    expect(a!.lost).toBe(false);
    expect(await hurried.cancelled([a!])).toEqual([false]);
    await hurried.check();
    // A lock that is let go of in time is no failure.
    const patient = hurried.settle([answered(a!)]);
    other.exec("ROLLBACK");
    other.close();
    expect(await patient).toEqual(["settled"]);
    expect(await claim(1)).toHaveLength(1);
    await hurried.close();
  });

  it("what was settled before the file was locked is told, and the rest is to be tried again", async () => {
    await submit(600);
    const claims = [...(await claim(512)), ...(await claim(88))];
    const other = new DatabaseSync(folder.path);
    const clock: Clock = {
      ...realClock,
      // Between the first transaction and the second.
      soon(callback) {
        other.exec("BEGIN IMMEDIATE");
        realClock.soon(callback);
      },
    };
    const interrupted = sqliteBroker(folder.settings(), { ...folder.deps, clock });
    const outcomes = await interrupted.settle(claims.map(answered));
    expect(outcomes.filter((outcome) => outcome === "settled")).toHaveLength(512);
    const failed = outcomes.slice(512);
    expect(failed).toHaveLength(88);
    for (const outcome of failed) expect(outcome).toMatchObject({ failed: expect.stringContaining("lock") });
    other.close();
    expect(new Set(await broker.settle(claims.slice(512).map(answered)))).toEqual(new Set(["settled"]));
    expect(await producer.resultQueueDepth()).toBe(600);
    await interrupted.close();
  });

  it("a reader of results waits for the lock too, and takes nothing for callers that have left", async () => {
    await submit(2);
    for (const each of await claim(2)) await broker.settle([answered(each)]);
    const reading = sqliteProducer(
      { path: folder.path, requestQueueName: "q", resultQueueName: "results" },
      { ...folder.deps, clock: realClock },
    );
    const other = new DatabaseSync(folder.path);
    other.exec("BEGIN IMMEDIATE");
    const end = new AbortController();
    const left = reading.getResult(end.signal);
    const stays = reading.getResult();
    end.abort(new Error("left"));
    await expect(left).rejects.toThrow("left");
    other.exec("ROLLBACK");
    other.close();
    expect((await stays).id).toBe("m0");
    expect(await producer.resultQueueDepth()).toBe(1);
    await reading.close();
  });

  it.each([-86_400_000, 86_400_000])(
    "a clock set by %d ms since a retry was reckoned leaves its pause as it was (H-45)",
    async (ahead) => {
      await submit(1);
      const [retried] = await claim(1);
      const { labels } = retried!.message.routing;
      const since = folder.clock.wall() + ahead;
      await broker.settle([{ kind: "retry", claim: retried!, due: since / 1000 + 4, since, retryCount: 1, labels }]);
      folder.clock.advance(3900);
      await broker.moveDue();
      expect(await broker.backlog(q)).toMatchObject({ retries: 1, waiting: 0 });
      folder.clock.advance(101);
      await broker.moveDue();
      expect(await broker.backlog(q)).toMatchObject({ retries: 0, waiting: 1 });
    },
  );

  it("says once that the clock was set, and by how much", async () => {
    const log = new LogLines();
    const peer = sqliteBroker(folder.settings(), { ...folder.deps, log });
    await peer.reclaim(new Set());
    folder.clock.set(3_600_000);
    for (let round = 0; round < 3; round++) await peer.reclaim(new Set());
    expect(log.lines.map(({ message }) => message)).toEqual([
      "the clock of the queue store was set forward by 3600 s: every lease starts again, and each message stays with its dispatcher",
    ]);
    await peer.close();
  });

  it("a clock that was set back makes no lease and no pause longer than it was meant to be (H-45)", async () => {
    await submit(2);
    const [, retried] = await claim(2);
    const { labels } = retried!.message.routing;
    const due = folder.clock.wall() / 1000 + 4;
    await broker.settle([{ kind: "retry", claim: retried!, due, retryCount: 1, labels }]);
    const earlier = new CaseFolder();
    const deps = { ...folder.deps, clock: earlier.clock };
    // Ten days before: the lease ends in ten days, by this clock.
    Object.defineProperty(deps.clock, "wall", { value: () => folder.clock.wall() - 864_000_000 + deps.clock.now() });
    const peer = sqliteBroker(folder.settings(), deps);
    await peer.reclaim(new Set());
    expect(await peer.backlog(q)).toMatchObject({ claimed: 1, retries: 1 });
    deps.clock.advance(4001);
    await peer.moveDue();
    expect(await peer.backlog(q)).toMatchObject({ claimed: 1, retries: 0, waiting: 1 });
    deps.clock.advance(56_000);
    await peer.reclaim(new Set());
    expect(await peer.backlog(q)).toMatchObject({ claimed: 0, waiting: 2 });
    await peer.close();
    earlier.remove();
  });

  it("an older copy of the file takes the answers in hand, and nobody gets their messages again", async () => {
    const raw = new DatabaseSync(folder.path);
    await submit(3);
    const [m0] = await claim(1);
    raw.exec(`VACUUM INTO '${folder.path}.copy'`);
    raw.close();
    const [m1, m2] = await claim(2);
    await producer.submitRequests([request("late"), request("later")]);
    const [late, later] = await claim(2);
    for (const end of ["", "-wal", "-shm"]) rmSync(folder.path + end, { force: true });
    renameSync(`${folder.path}.copy`, folder.path);
    // Takes the number that one of the lost ones had.
    await producer.submitRequest(request("new"));
    expect(await broker.backlog(q)).toMatchObject({ claimed: 1, waiting: 3 });
    expect(await broker.renew([m0!, m1!, later!, late!])).toEqual([]);
    expect(await broker.backlog(q)).toMatchObject({ claimed: 4, waiting: 2 });
    expect(await broker.settle([m0!, m1!, m2!, late!, later!].map(answered))).toEqual([
      "recovered",
      "recovered",
      "recovered",
      "recovered",
      "recovered",
    ]);
    expect(await broker.settle([m1!, late!].map(answered))).toEqual(["fenced", "fenced"]);
    expect((await claim(9)).map(({ message }) => message.request.id)).toEqual(["new"]);
    expect(await producer.resultQueueDepth()).toBe(5);
  });

  it("is not ready while the file takes no writes: read-only, or no room for results", async () => {
    const opened = new Set<DatabaseSync>();
    const exec = DatabaseSync.prototype.exec;
    const spy = vi.spyOn(DatabaseSync.prototype, "exec").mockImplementation(function (this: DatabaseSync, sql) {
      opened.add(this);
      exec.call(this, sql);
    });
    const watched = sqliteBroker(folder.settings(), folder);
    spy.mockRestore();
    const [db] = opened;
    await submit(1);
    const [a] = (await watched.claim(q, { max: 1, expired: 0 })).claims;
    db!.exec("PRAGMA query_only = 1");
    await expect(watched.check()).rejects.toThrow("the file is read-only");
    db!.exec("PRAGMA query_only = 0; PRAGMA max_page_count = 1");
    const payload = Buffer.alloc(100_000, "x");
    const large: Settlement = { kind: "result", claim: a!, result: { ...errorResult("m0", "CANCELLED", ""), payload } };
    await expect(watched.settle([large])).rejects.toMatchObject({
      code: "BROKER_UNAVAILABLE",
      message: expect.stringContaining("the disk is full"),
    });
    db!.exec("PRAGMA max_page_count = 100000");
    await watched.check();
    expect(await watched.settle([large])).toEqual(["settled"]);
    await watched.close();
  });

  it("a claim of another file settles no message of this one, also when the numbers are the same", async () => {
    await submit(1);
    const [a] = await claim(1);
    const other = new CaseFolder();
    const elsewhere = sqliteBroker(other.settings(), {
      ...other,
      random: { ...folder.random, below: () => 7, next: () => 0 },
    });
    const there = sqliteProducer({ path: other.path, requestQueueName: "q", resultQueueName: "results" }, other);
    await there.submitRequest(request("b"));
    const [b] = (await elsewhere.claim(q, { max: 1, expired: 0 })).claims;
    expect(b!.id.split(":").slice(1)).toEqual(a!.id.split(":").slice(1));
    // Nobody has answered it here: as far as this file goes, it was lost.
    expect(await elsewhere.settle([answered(a!)])).toEqual(["recovered"]);
    expect(await elsewhere.renew([a!])).toEqual([a]);
    expect(await elsewhere.cancelled([a!])).toEqual([false]);
    expect(await elsewhere.backlog(q)).toMatchObject({ claimed: 1, waiting: 0 });
    expect(await elsewhere.settle([answered(b!)])).toEqual(["settled"]);
    await elsewhere.close();
    await there.close();
    other.remove();
  });
});

describe("A-87 what a process gives back as it ends", () => {
  it("is announced to the others: they need not wait for their idle poll", async () => {
    const folder = new CaseFolder();
    const producer = sqliteProducer({ path: folder.path, requestQueueName: "q", resultQueueName: "results" }, folder);
    const broker = sqliteBroker(folder.settings(), folder);
    broker.start(NO_EVENTS);
    await producer.submitRequest({ id: "a", deadline: folder.inSeconds(600), payload: {} });
    const { claims } = await broker.claim(queueOf("q"), { max: 1, expired: 0 });
    folder.clock.advance(5000);
    await broker.settle([{ kind: "refuse", claim: claims[0]!, labels: {} }]);
    await broker.close();
    // The bell is a file whose time is set.
    expect(statSync(`${folder.path}-requests`).mtimeMs).toBe(folder.clock.wall());
    await producer.close();
    folder.remove();
  });
});
