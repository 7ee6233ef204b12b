import type { QueueBacklog } from "../broker.ts";
import type { QueueFile } from "./queue-file.ts";
import { MESSAGE_COLUMNS, type MessageRow } from "./rows.ts";
import { CLAIMED, PARKED, WAITING } from "./schema.ts";

/** One delivery of a message: changes apply only while this is the latest delivery. */
export interface DeliveryKey {
  readonly seq: number;
  readonly deliveries: number;
}

/** States in which a message stays until a certain time. */
const TIMED = [CLAIMED, PARKED] as const;

const HELD = `seq = ? AND deliveries = ? AND state = ${CLAIMED}`;

/** The statements on a queue file; each method is called within `read` or `write` of the file. */
export class QueueTables {
  readonly #file: QueueFile;

  constructor(file: QueueFile) {
    this.#file = file;
  }

  /** The number of a queue; 0 when nothing was ever put into it. */
  queue(name: string): number {
    return Number(this.#file.statement("SELECT id FROM queues WHERE name = ?").get(name)?.["id"] ?? 0);
  }

  /** As `queue`, and creates it if needed. */
  makeQueue(name: string): number {
    this.#file.statement("INSERT INTO queues (name) VALUES (?) ON CONFLICT (name) DO NOTHING").run(name);
    return this.queue(name);
  }

  /** The numbers of waiting, claimed, parked and dead entries of a queue. */
  counts(queue: number): { waiting: number; claimed: number; parked: number; dead: number } {
    const row = this.#file.statement("SELECT waiting, claimed, parked, dead FROM queues WHERE id = ?").get(queue);
    const count = (column: string): number => Number(row?.[column] ?? 0);
    return { waiting: count("waiting"), claimed: count("claimed"), parked: count("parked"), dead: count("dead") };
  }

  /** The contents of a queue in numbers, for users. */
  backlog(queueName: string): QueueBacklog {
    const queue = this.queue(queueName);
    const { parked: retries, ...counts } = this.counts(queue);
    const published = this.#firstPublished(queue);
    return {
      ...counts,
      retries,
      nextDeadline: this.firstScore(queue),
      ...(Number.isNaN(published) ? {} : { nextCreated: Math.floor(published / 1000) }),
    };
  }

  /** The smallest waiting score; NaN when no entry waits. */
  firstScore(queue: number): number {
    const sql = `SELECT score FROM messages WHERE queue = ? AND state = ${WAITING} ORDER BY score LIMIT 1`;
    return Number(this.#file.statement(sql).get(queue)?.["score"] ?? Number.NaN);
  }

  /** When the entry of `firstScore` was added, milliseconds; NaN when there is none. */
  #firstPublished(queue: number): number {
    const sql = `SELECT published FROM messages WHERE queue = ? AND state = ${WAITING} ORDER BY score, seq LIMIT 1`;
    return Number(this.#file.statement(sql).get(queue)?.["published"] ?? Number.NaN);
  }

  /** @param published milliseconds @returns its sequence number */
  add(queue: number, id: string, body: string, score: number, published: number): number {
    const { lastInsertRowid } = this.#file
      .statement("INSERT INTO messages (queue, score, published, request) VALUES (?, ?, ?, ?)")
      .run(queue, score, published, id);
    this.#file.statement("INSERT INTO entries (seq, body) VALUES (?, ?)").run(lastInsertRowid, body);
    return Number(lastInsertRowid);
  }

  /** Writes to the file without a change. */
  touch(): void {
    this.#file.statement("UPDATE store SET id = id").run();
  }

  /** The message that has a sequence number now. */
  standing(
    seq: number,
  ): { readonly deliveries: number; readonly claimed: number; readonly request: string } | undefined {
    const sql = `SELECT deliveries, state = ${CLAIMED} AS claimed, request FROM messages WHERE seq = ?`;
    return this.#file.statement(sql).get(seq) as unknown as ReturnType<QueueTables["standing"]>;
  }

  /** Whether a message with this sequence number was ever put into this file. */
  hasGivenOut(seq: number): boolean {
    const sql = "SELECT seq FROM sqlite_sequence WHERE name = 'messages'";
    return Number(this.#file.statement(sql).get()?.["seq"] ?? 0) >= seq;
  }

  /** Makes a message a claim, from any state. @param until end of the lease, milliseconds */
  reclaim({ seq, deliveries }: DeliveryKey, until: number, ttl: number): void {
    const sql = `UPDATE messages SET state = ${CLAIMED}, until = ?, ttl = ?, deliveries = ? WHERE seq = ?`;
    this.#file.statement(sql).run(until, ttl, deliveries, seq);
  }

  /** The first entries in order; they stay. */
  peek(queue: number, count: number): MessageRow[] {
    const sql = `SELECT ${MESSAGE_COLUMNS} FROM messages WHERE queue = ? AND state = ${WAITING} ORDER BY score, seq LIMIT ?`;
    return this.#file.statement(sql).all(queue, count) as unknown as MessageRow[];
  }

  /** Claims the first entries with a score in [from, to), in order. @param until end of the lease, milliseconds */
  claim(queue: number, from: number, to: number, count: number, until: number, ttl: number): MessageRow[] {
    const rows = this.#file
      .statement(
        `UPDATE messages SET state = ${CLAIMED}, until = ?, ttl = ?, deliveries = deliveries + 1
         WHERE seq IN (
           SELECT seq FROM messages WHERE queue = ? AND state = ${WAITING} AND score >= ? AND score < ?
           ORDER BY score, seq LIMIT ?)
         RETURNING ${MESSAGE_COLUMNS}`,
      )
      .all(until, ttl, queue, from, to, count) as unknown as MessageRow[];
    return rows.sort((a, b) => a.score - b.score || a.seq - b.seq);
  }

  /** A claimed message with its present data; undefined when the delivery is no longer held. */
  held({ seq, deliveries }: DeliveryKey): MessageRow | undefined {
    const sql = `SELECT ${MESSAGE_COLUMNS} FROM messages WHERE ${HELD}`;
    return this.#file.statement(sql).get(seq, deliveries) as unknown as MessageRow | undefined;
  }

  /** Ends a message. @returns false when the delivery is no longer held, as do the four below */
  remove({ seq, deliveries }: DeliveryKey): boolean {
    return this.#file.statement(`DELETE FROM messages WHERE ${HELD}`).run(seq, deliveries).changes === 1;
  }

  renew({ seq, deliveries }: DeliveryKey, until: number, ttl: number): boolean {
    const sql = `UPDATE messages SET until = ?, ttl = ? WHERE ${HELD}`;
    return this.#file.statement(sql).run(until, ttl, seq, deliveries).changes === 1;
  }

  /** @param now and the pause after it in milliseconds @param score its place when it comes back */
  park(
    { seq, deliveries }: DeliveryKey,
    {
      now,
      pause,
      score,
      retries,
      labels,
    }: { now: number; pause: number; score: number; retries: number; labels: string },
  ): boolean {
    const sql = `UPDATE messages SET state = ${PARKED}, until = ?, ttl = ?, score = ?, retries = ?, labels = ? WHERE ${HELD}`;
    const { changes } = this.#file.statement(sql).run(now + pause, pause, score, retries, labels, seq, deliveries);
    return changes === 1;
  }

  refuse({ seq, deliveries }: DeliveryKey, labels: string): boolean {
    const sql = `UPDATE messages SET state = ${WAITING}, labels = ? WHERE ${HELD}`;
    return this.#file.statement(sql).run(labels, seq, deliveries).changes === 1;
  }

  /** Queues a message again whose lease has run out. */
  lose({ seq, deliveries }: DeliveryKey): boolean {
    const sql = `UPDATE messages SET state = ${WAITING}, lost = lost + 1 WHERE ${HELD}`;
    return this.#file.statement(sql).run(seq, deliveries).changes === 1;
  }

  /** Deliveries whose lease has run out, at most `count`. @param now milliseconds */
  runOut(queue: number, now: number, count: number): (DeliveryKey & { readonly lost: number })[] {
    const sql = `SELECT seq, deliveries, lost FROM messages WHERE queue = ? AND state = ${CLAIMED} AND until <= ? LIMIT ?`;
    return this.#file.statement(sql).all(queue, now, count) as unknown as (DeliveryKey & { lost: number })[];
  }

  /** Whether leases or pauses end later than if they began now. That happens only after a clock was set back. */
  endsAhead(queue: number, now: number): boolean {
    return TIMED.some((state) => {
      const sql = `SELECT 1 FROM messages WHERE queue = ? AND state = ${state} AND until > ttl + ? LIMIT 1`;
      return this.#file.statement(sql).get(queue, now) !== undefined;
    });
  }

  /** Shortens these to the end that they would have if they began now. */
  shortenAhead(queue: number, now: number): void {
    for (const state of TIMED) {
      const sql = `UPDATE messages SET until = ttl + ? WHERE queue = ? AND state = ${state} AND until > ttl + ?`;
      this.#file.statement(sql).run(now, queue, now);
    }
  }

  /** The leases of all claims of a queue begin now. */
  beginLeases(queue: number, now: number): void {
    const sql = `UPDATE messages SET until = ttl + ? WHERE queue = ? AND state = ${CLAIMED}`;
    this.#file.statement(sql).run(now, queue);
  }

  /** When the last lease of a queue ends, milliseconds; -Infinity when nothing is claimed. */
  lastLease(queue: number): number {
    const sql = `SELECT until FROM messages WHERE queue = ? AND state = ${CLAIMED} ORDER BY until DESC LIMIT 1`;
    return Number(this.#file.statement(sql).get(queue)?.["until"] ?? Number.NEGATIVE_INFINITY);
  }

  /** Queues claimed messages again whose lease ends by `until`, as they were; at most `count`. @returns how many */
  release(queue: number, until: number, count: number): number {
    const sql = `UPDATE messages SET state = ${WAITING} WHERE seq IN (
      SELECT seq FROM messages WHERE queue = ? AND state = ${CLAIMED} AND until <= ? LIMIT ?)`;
    return Number(this.#file.statement(sql).run(queue, until, count).changes);
  }

  /** When the next parked message of a queue is due, milliseconds; infinity when there is none. */
  nextDue(queue: number): number {
    const sql = `SELECT until FROM messages WHERE queue = ? AND state = ${PARKED} ORDER BY until LIMIT 1`;
    return Number(this.#file.statement(sql).get(queue)?.["until"] ?? Number.POSITIVE_INFINITY);
  }

  /** Queues parked messages that are due, at most `count`. @returns how many */
  moveDue(queue: number, now: number, count: number): number {
    const sql = `UPDATE messages SET state = ${WAITING} WHERE seq IN (
      SELECT seq FROM messages WHERE queue = ? AND state = ${PARKED} AND until <= ? ORDER BY until LIMIT ?)`;
    return Number(this.#file.statement(sql).run(queue, now, count).changes);
  }

  /** Removes waiting entries of a queue, at most `count`. @returns how many */
  clear(queue: number, count: number): number {
    const sql = `DELETE FROM messages WHERE seq IN (
      SELECT seq FROM messages WHERE queue = ? AND state = ${WAITING} LIMIT ?)`;
    return Number(this.#file.statement(sql).run(queue, count).changes);
  }

  /** Marks all outstanding messages of an id; messages that are added later are not marked. */
  cancel(id: string): void {
    this.#file.statement("UPDATE messages SET cancelled = 1 WHERE request = ?").run(id);
  }

  isCancelled({ seq, deliveries }: DeliveryKey): boolean {
    const sql = `SELECT cancelled FROM messages WHERE ${HELD}`;
    return this.#file.statement(sql).get(seq, deliveries)?.["cancelled"] === 1;
  }

  addResult(queueName: string, body: string): void {
    this.#file.statement("INSERT INTO results (queue, body) VALUES (?, ?)").run(queueName, body);
  }

  hasResults(queueName: string): boolean {
    return this.#file.statement("SELECT 1 FROM results WHERE queue = ? LIMIT 1").get(queueName) !== undefined;
  }

  countResults(queueName: string): number {
    const sql = "SELECT count(*) AS count FROM results WHERE queue = ?";
    return Number(this.#file.statement(sql).get(queueName)?.["count"]);
  }

  /** Takes out the oldest results, in order. */
  takeResults(queueName: string, count: number): string[] {
    const rows = this.#file
      .statement(
        `DELETE FROM results WHERE seq IN (SELECT seq FROM results WHERE queue = ? ORDER BY seq LIMIT ?)
         RETURNING seq, body`,
      )
      .all(queueName, count) as unknown as { seq: number; body: string }[];
    return rows.sort((a, b) => a.seq - b.seq).map(({ body }) => body);
  }

  /** The oldest results in order, up to `bytes` (at least one result); they stay. */
  peekResults(queueName: string, count: number, bytes: number): { seq: number; body: string }[] {
    const sql = "SELECT seq, body FROM results WHERE queue = ? ORDER BY seq LIMIT ?";
    const rows: { seq: number; body: string }[] = [];
    let left = bytes;
    for (const row of this.#file.statement(sql).iterate(queueName, count)) {
      const { seq, body } = row as unknown as { seq: number; body: string };
      rows.push({ seq, body });
      left -= body.length;
      if (left <= 0) break;
    }
    return rows;
  }

  /** Removes the results up to a sequence number. */
  removeResults(queueName: string, upTo: number): void {
    this.#file.statement("DELETE FROM results WHERE queue = ? AND seq <= ?").run(queueName, upTo);
  }

  /** Whether there is a message of this request id, in any queue and state. */
  isOutstanding(id: string): boolean {
    return this.#file.statement("SELECT 1 FROM messages WHERE request = ? LIMIT 1").get(id) !== undefined;
  }

  /** Queues that ever got an entry; at most 10,000. */
  queueNames(): string[] {
    return this.#file
      .statement("SELECT name FROM queues ORDER BY name LIMIT 10000")
      .all()
      .map(({ name }) => String(name));
  }

  /** Queues that hold results; at most 10,000. */
  resultQueueNames(): string[] {
    return this.#file
      .statement("SELECT DISTINCT queue FROM results ORDER BY queue LIMIT 10000")
      .all()
      .map(({ queue }) => String(queue));
  }

  /** @param at milliseconds */
  addDead(queue: number, entry: string, reason: string, at: number): void {
    const sql = "INSERT INTO dead (queue, entry, reason, at) VALUES (?, ?, ?, ?)";
    this.#file.statement(sql).run(queue, entry, reason, at);
  }

  /** The oldest dead letters; they stay. */
  dead(queue: number, count: number): { seq: number; entry: string; reason: string; at: number }[] {
    const sql = "SELECT seq, entry, reason, at FROM dead WHERE queue = ? ORDER BY seq LIMIT ?";
    return this.#file.statement(sql).all(queue, count) as unknown as ReturnType<QueueTables["dead"]>;
  }

  removeDead(seq: number): void {
    this.#file.statement("DELETE FROM dead WHERE seq = ?").run(seq);
  }
}
