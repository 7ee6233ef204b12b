import type { Clock } from "../../base/clock/clock.ts";
import type { QueueBacklog } from "../brokers/broker.ts";
import type { ResultMessage } from "../brokers/messages/message.ts";
import type { BatchQueue, LineInbox, LineProducer, LineRequest } from "./batch-queue.ts";
import { type QueuedLine, QueuedLines } from "./queued-lines.ts";

/** A line that waits for another attempt. */
interface Parked {
  readonly line: QueuedLine;
  /** Monotonic milliseconds. */
  readonly due: number;
}

/** The batches of one queue. */
interface Lane {
  readonly name: string;
  /** By their deadlines, and of equals the older first. */
  batches: QueuedLines[];
  waiting: number;
  claimed: number;
  parked: number;
}

/**
 * The queue of the requests of all batches, in this process. It needs no disk: the files of the batches say which lines have no
 * answer, and the next process queues those again. A body stays in its file until a dispatcher claims its line.
 */
export class LineQueue implements BatchQueue {
  readonly #clock: Clock;
  readonly #lanes = new Map<string, Lane>();
  readonly #batches = new Map<string, QueuedLines>();
  /** Lines that are not gone, by their ids. */
  readonly #lines = new Map<string, QueuedLine>();
  /** The latest first. */
  readonly #parked: Parked[] = [];
  /** Monotonic milliseconds. */
  #until = Number.POSITIVE_INFINITY;
  #announce: (queueName: string) => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `announce` whenever a queue holds lines that it did not hold before. */
  listen(announce: (queueName: string) => void): void {
    this.#announce = announce;
  }

  async producer(requestQueueName: string, resultQueueName: string): Promise<LineProducer> {
    return {
      submitRequests: async (requests) => this.#submit(requestQueueName, resultQueueName, requests),
      close: async () => this.#end(resultQueueName),
    };
  }

  inbox(resultQueueName: string): LineInbox {
    let read = 0;
    return {
      read: async (count) => {
        const some = this.#batches.get(resultQueueName)?.firstResults(count) ?? [];
        read = some.length;
        return some;
      },
      remove: async () => {
        const lines = this.#batches.get(resultQueueName);
        if (lines === undefined || read === 0) return;
        const wasFull = !lines.hasRoom;
        lines.removeResults(read);
        read = 0;
        if (wasFull && lines.hasRoom) this.#announce(lines.queueName);
      },
    };
  }

  async outstanding(ids: readonly string[]): Promise<readonly boolean[]> {
    return ids.map((id) => this.#lines.has(id));
  }

  async withdraw(ids: readonly string[]): Promise<readonly boolean[]> {
    return ids.map((id) => {
      const line = this.#lines.get(id);
      if (line === undefined) return false;
      line.cancelled = true;
      if (line.state === "claimed") return false;
      this.#takeBack(line);
      return true;
    });
  }

  drop(resultQueueName: string): void {
    const lines = this.#batches.get(resultQueueName);
    if (lines === undefined) return;
    for (const [id, line] of this.#lines) {
      if (line.lines !== lines) continue;
      if (line.state !== "claimed") this.#takeBack(line);
      else {
        // It ends when its dispatcher has an answer, which nobody takes.
        line.cancelled = true;
        this.#lines.delete(id);
      }
    }
    lines.close();
    lines.isDropped = true;
    this.#remove(lines);
  }

  allow(until: number): void {
    const begins = !this.isAllowed;
    this.#until = until;
    if (begins) for (const name of this.#lanes.keys()) this.#announce(name);
  }

  /**
   * Whether requests may go to dispatchers now. It reads the clock and waits for no timer: after a halt of the process, answers of
   * requests may free dispatchers before any timer fires.
   */
  get isAllowed(): boolean {
    return this.#clock.now() < this.#until;
  }

  /**
   * Claims the next lines, those of the earliest deadline first.
   * @param now Unix seconds
   * @param live most lines whose deadline is still to come
   * @param late most lines whose deadline has passed
   */
  claim(queueName: string, now: number, live: number, late: number): readonly QueuedLine[] {
    const lane = this.#lane(queueName);
    const taken: QueuedLine[] = [];
    if (!this.isAllowed) return taken;
    for (const lines of lane.batches) {
      if (!lines.hasRoom) continue;
      const most = taken.length + (lines.deadline < now ? late : live);
      while (taken.length < most) {
        const line = lines.peek();
        if (line === undefined) break;
        lines.take(line);
        taken.push(line);
        if (lines.deadline < now) late--;
        else live--;
      }
    }
    lane.waiting -= taken.length;
    lane.claimed += taken.length;
    return taken;
  }

  /** Whether a line still has the claim that began with so many deliveries. */
  holds(line: QueuedLine, delivery: number): boolean {
    return line.state === "claimed" && line.deliveries === delivery;
  }

  /** Ends a claimed line. */
  answer(line: QueuedLine, result: ResultMessage): void {
    this.#laneOf(line).claimed--;
    this.#forget(line);
    if (!line.lines.isDropped) line.lines.addResult(result);
  }

  /** Puts a claimed line back at the front of its batch. */
  putBack(line: QueuedLine): void {
    const lane = this.#laneOf(line);
    lane.claimed--;
    if (line.lines.isDropped) {
      this.#forget(line);
      return;
    }
    lane.waiting++;
    line.lines.putBack(line);
  }

  /** Lets a claimed line wait for another attempt. @param pause milliseconds */
  park(line: QueuedLine, pause: number): void {
    const lane = this.#laneOf(line);
    lane.claimed--;
    if (line.lines.isDropped) {
      this.#forget(line);
      return;
    }
    lane.parked++;
    line.state = "parked";
    const due = this.#clock.now() + Math.max(0, pause);
    let [from, to] = [0, this.#parked.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.#parked[middle]!.due > due) from = middle + 1;
      else to = middle;
    }
    this.#parked.splice(from, 0, { line, due });
  }

  /** Queues parked lines that are due. @returns milliseconds until the next one is; Infinity = none is parked */
  moveDue(): number {
    const now = this.#clock.now();
    const lanes = new Set<Lane>();
    for (;;) {
      const next = this.#parked.at(-1);
      if (next === undefined || (next.line.state === "parked" && next.due > now)) break;
      this.#parked.pop();
      // Taken back meanwhile.
      if (next.line.state !== "parked") continue;
      const lane = this.#laneOf(next.line);
      lane.parked--;
      lane.waiting++;
      next.line.lines.putBack(next.line);
      lanes.add(lane);
    }
    for (const { name } of lanes) this.#announce(name);
    return (this.#parked.at(-1)?.due ?? Number.POSITIVE_INFINITY) - now;
  }

  backlog(queueName: string): QueueBacklog {
    const { batches, waiting, claimed, parked: retries } = this.#lane(queueName);
    const first = batches.find((lines) => lines.peek() !== undefined);
    const created = first?.peek()?.publishedAt;
    return {
      ...{ waiting, claimed, retries, dead: 0, nextDeadline: first?.deadline ?? Number.NaN },
      ...(created === undefined ? {} : { nextCreated: Math.floor(created / 1000) }),
    };
  }

  #submit(queueName: string, resultQueueName: string, requests: readonly LineRequest[]): void {
    const lane = this.#lane(queueName);
    const publishedAt = this.#clock.wall();
    for (const { payload: _kept, ...request } of requests) {
      const lines = this.#linesOf(lane, resultQueueName, request.deadline);
      const line: QueuedLine = {
        ...{ request, lines, publishedAt, state: "waiting", cancelled: false },
        ...{ deliveries: 0, retryCount: 0, labels: {} },
      };
      this.#lines.set(request.id, line);
      lines.add(line);
      lane.waiting++;
    }
    this.#announce(queueName);
  }

  #linesOf(lane: Lane, resultQueueName: string, deadline: number): QueuedLines {
    let lines = this.#batches.get(resultQueueName);
    if (lines !== undefined) return lines;
    lines = new QueuedLines(lane.name, resultQueueName, deadline);
    this.#batches.set(resultQueueName, lines);
    const at = lane.batches.findIndex((other) => other.deadline > deadline);
    lane.batches.splice(at < 0 ? lane.batches.length : at, 0, lines);
    return lines;
  }

  /** Nobody submits more. Lines and results stay for those who go on with the batch. */
  #end(resultQueueName: string): void {
    const lines = this.#batches.get(resultQueueName);
    lines?.close();
    if (lines?.isEmpty === true) this.#remove(lines);
  }

  #remove(lines: QueuedLines): void {
    this.#batches.delete(lines.resultQueueName);
    const lane = this.#lane(lines.queueName);
    lane.batches = lane.batches.filter((other) => other !== lines);
  }

  /** Takes a line out of the queue that no dispatcher has. */
  #takeBack(line: QueuedLine): void {
    const lane = this.#laneOf(line);
    if (line.state === "parked") lane.parked--;
    else lane.waiting--;
    this.#forget(line);
  }

  #forget(line: QueuedLine): void {
    line.state = "gone";
    line.lines.size--;
    // The same line may be queued anew after a drop.
    if (this.#lines.get(line.request.id) === line) this.#lines.delete(line.request.id);
  }

  #laneOf(line: QueuedLine): Lane {
    return this.#lane(line.lines.queueName);
  }

  #lane(name: string): Lane {
    let lane = this.#lanes.get(name);
    if (lane === undefined) {
      lane = { name, batches: [], waiting: 0, claimed: 0, parked: 0 };
      this.#lanes.set(name, lane);
    }
    return lane;
  }
}
