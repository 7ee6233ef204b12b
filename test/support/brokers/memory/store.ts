import { parseEnvelope } from "../../../../src/async/brokers/messages/envelope.ts";
import { UnreadableMessage } from "../../../../src/async/brokers/messages/request.ts";
import type { DeadLetter } from "../../../../src/async/brokers/queue-client.ts";
import type { Clock } from "../../../../src/base/clock/clock.ts";
import { SluiceError } from "../../../../src/base/inference/errors.ts";
import { EntryList, type MemoryEntry } from "./entry-list.ts";

/** An entry under a lease. */
export interface MemoryLease {
  readonly entry: MemoryEntry;
  /** The broker that holds it. */
  readonly owner: object;
  /** Monotonic milliseconds: whoever sets the wall clock ends no lease. */
  until: number;
  /** The claim was made, but its answer never arrived. */
  unanswered: boolean;
}

/** What can be wrong with a server: it does nothing, or does what it is asked to and the answer is lost. */
export type MemoryFault = "none" | "away" | "answer-lost";

/** The "server" behind memory brokers and producers: several of each may share one, as processes share a database. */
export class MemoryStore {
  readonly clock: Clock;
  /** Entries that may be outstanding, in result queues and among the dead letters together. */
  readonly limit: number;
  readonly leases = new Map<string, MemoryLease>();
  /** Ordered by the time they are due. */
  readonly parked = new EntryList();
  fault: MemoryFault = "none";
  /** Counts how often the store has lost everything; claim ids begin with it. */
  epoch = 0;
  /** Claims of earlier epochs that were put back in this one. */
  readonly reinstated = new Set<string>();
  /** Milliseconds from a call to its answer; what it does happens at once. */
  latency = 0;
  readonly #queues = new Map<string, EntryList>();
  readonly #results = new Map<string, string[]>();
  readonly #dead = new Map<string, DeadLetter[]>();
  readonly #byId = new Map<string, Set<MemoryEntry>>();
  readonly #requestListeners = new Set<(queueName: string) => void>();
  readonly #resultListeners = new Set<() => void>();
  #held = 0;
  #order = 0;

  /** @param limit entries, >= 1 */
  constructor(clock: Clock, limit = 1_000_000) {
    this.clock = clock;
    this.limit = limit;
  }

  /** Runs `work` as a server would; without latency in the same turn. @throws SluiceError BROKER_UNAVAILABLE */
  async call<T>(work: () => T, answerLost?: (answer: T) => void): Promise<T> {
    const { fault } = this;
    if (fault === "away") throw unavailable("the server is away");
    const answer = work();
    if (fault === "answer-lost") {
      answerLost?.(answer);
      throw unavailable("the answer was lost");
    }
    if (this.latency > 0) await new Promise<void>((resolve) => this.clock.after(this.latency, resolve));
    return answer;
  }

  /** Loses everything, as a server without persistence does that is started again. */
  wipe(): void {
    this.epoch++;
    this.#held = 0;
    this.leases.clear();
    this.reinstated.clear();
    this.parked.take(() => "take");
    for (const each of [this.#queues, this.#results, this.#dead, this.#byId]) each.clear();
  }

  queue(name: string): EntryList {
    return getOrMake(this.#queues, name, () => new EntryList());
  }

  results(queueName: string): string[] {
    return getOrMake(this.#results, queueName, () => []);
  }

  dead(queueName: string): DeadLetter[] {
    return getOrMake(this.#dead, queueName, () => []);
  }

  /** @throws SluiceError BROKER_UNAVAILABLE when `count` more entries do not fit */
  reserve(count: number): void {
    if (this.#held + count > this.limit) throw unavailable(`the store is full: ${this.limit} entries`);
  }

  /** Queues a new entry, whatever it is. */
  add(queueName: string, text: string, score: number): void {
    this.queue(queueName).add(this.make(queueName, text, score), score);
  }

  /** A new entry that is outstanding, and in no list yet. */
  make(queueName: string, text: string, score: number): MemoryEntry {
    let id = "";
    let deadline = Number.NaN;
    try {
      ({ id, deadline } = parseEnvelope(text).request);
    } catch (error) {
      if (!(error instanceof UnreadableMessage)) throw error;
    }
    const publishedAt = this.clock.wall();
    const entry: MemoryEntry = {
      queueName,
      id,
      deadline,
      order: this.#order++,
      publishedAt,
      text,
      score,
      due: 0,
      deliveries: 0,
      cancelled: false,
    };
    getOrMake(this.#byId, id, () => new Set()).add(entry);
    this.#held++;
    return entry;
  }

  /** Marks all that is outstanding under `id`; what is submitted under it later is not meant. */
  cancel(id: string): void {
    for (const entry of this.#byId.get(id) ?? []) entry.cancelled = true;
  }

  /** Is anything under `id` queued, claimed or parked? */
  isOutstanding(id: string): boolean {
    return this.#byId.has(id);
  }

  /** Forgets an entry that is in no list any more. */
  forget(entry: MemoryEntry): void {
    this.#held--;
    const same = this.#byId.get(entry.id);
    same?.delete(entry);
    if (same?.size === 0) this.#byId.delete(entry.id);
  }

  pushResult(queueName: string, text: string): void {
    this.#held++;
    this.results(queueName).push(text);
    for (const listener of this.#resultListeners) listener();
  }

  takeResult(queueName: string): string | undefined {
    const text = this.#results.get(queueName)?.shift();
    if (text !== undefined) this.#held--;
    return text;
  }

  clearResults(queueName: string): void {
    this.#held -= this.results(queueName).length;
    this.#results.delete(queueName);
  }

  bury(queueName: string, letter: DeadLetter): void {
    this.#held++;
    this.dead(queueName).push(letter);
  }

  /** Takes out the oldest dead letters. */
  exhume(queueName: string, count: number): DeadLetter[] {
    const letters = this.dead(queueName).splice(0, count);
    this.#held -= letters.length;
    return letters;
  }

  /** There is something new in a queue. */
  announce(queueName: string): void {
    for (const listener of this.#requestListeners) listener(queueName);
  }

  /** @returns ends it */
  onRequests(listener: (queueName: string) => void): () => void {
    this.#requestListeners.add(listener);
    return () => this.#requestListeners.delete(listener);
  }

  /** @returns ends it */
  onResults(listener: () => void): () => void {
    this.#resultListeners.add(listener);
    return () => this.#resultListeners.delete(listener);
  }
}

function getOrMake<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

function unavailable(problem: string): SluiceError {
  return new SluiceError("BROKER_UNAVAILABLE", `memory broker: ${problem}`);
}
