import type { Clock } from "../../base/clock/clock.ts";
import type { DecisionRecord, RecordedFilter } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { type FullCapture, fullRecordBytes } from "./full-record.ts";
import { NumberRing } from "./number-ring.ts";
import type { CallReporter } from "./plugin-calls.ts";
import type { SchedulingPlan } from "./profile.ts";
import type { ProfileRun } from "./profile-run.ts";
import { CompactRecord, shortened } from "./record.ts";

/** The most subscribers at a time. */
const MAX_SUBSCRIBERS = 64;
/** The most full records at a time; `MAX_FULL_BYTES` limits their estimated bytes. */
const MAX_FULL = 64;
const MAX_FULL_BYTES = 8 << 20;

/**
 * The latest decisions: at most 4,096 records and at most 16 MiB by estimate; the oldest are dropped first. At most 64 of them,
 * with at most 8 MiB by estimate, are full records; the full part of the oldest one is dropped first. Numbers run from 1
 * without gaps, over all schedulers that share the store.
 */
export class DecisionRecords {
  /** The numbers of the records. */
  readonly numbers = new NumberRing();
  readonly #capacity: number;
  readonly #maxBytes: number;
  readonly #ring: (CompactRecord | undefined)[];
  readonly #sizes: Float64Array;
  /** Sequence of the oldest record kept. */
  #oldest = 1;
  #next = 1;
  #bytes = 0;
  /** The records with a full part, the oldest first, and the bytes of that part. */
  readonly #fulls: { readonly record: CompactRecord; readonly bytes: number }[] = [];
  #fullBytes = 0;
  readonly #subscribers = new Set<(record: DecisionRecord) => void>();

  /** @param capacity records, from 1 up @param maxBytes by estimate; the newest record stays even if it alone is larger */
  constructor(capacity = 4096, maxBytes = 16 << 20) {
    this.#capacity = capacity;
    this.#maxBytes = maxBytes;
    this.#ring = new Array<CompactRecord | undefined>(capacity).fill(undefined);
    this.#sizes = new Float64Array(capacity);
  }

  /** The number that the next record must have. */
  get nextSequence(): number {
    return this.#next;
  }

  /** The most records kept. */
  get capacity(): number {
    return this.#capacity;
  }

  /** The number of records. */
  get size(): number {
    return this.#next - this.#oldest;
  }

  /** Estimated bytes of all records, full parts included. */
  get bytes(): number {
    return this.#bytes + this.#fullBytes;
  }

  /** The record added last; undefined before the first. */
  get newest(): DecisionRecord | undefined {
    return this.#ring[(this.#next - 1) % this.#capacity];
  }

  /** The oldest record kept; undefined before the first. */
  get oldest(): DecisionRecord | undefined {
    return this.#ring[this.#oldest % this.#capacity];
  }

  /** Keeps a record, which must have the number `nextSequence`, and calls the subscribers. */
  add(record: CompactRecord): void {
    const bytes = record.estimatedBytes;
    const full = record.full === undefined ? 0 : fullRecordBytes(record.full);
    if (full > 0) this.#makeRoomForFull(full);
    while (this.size > 0 && (this.size >= this.#capacity || this.bytes + bytes + full > this.#maxBytes))
      this.#dropOldest();
    const at = this.#next++ % this.#capacity;
    this.#ring[at] = record;
    this.#sizes[at] = bytes;
    this.#bytes += bytes;
    if (full > 0) {
      this.#fulls.push({ record, bytes: full });
      this.#fullBytes += full;
    }
    for (const subscriber of this.#subscribers) {
      try {
        subscriber(record);
      } catch {
        // A subscriber must not be able to disturb a decision.
        this.#subscribers.delete(subscriber);
      }
    }
  }

  /** Returns the record with this number, if it is still kept. */
  bySequence(sequence: number): DecisionRecord | undefined {
    if (!(sequence >= this.#oldest && sequence < this.#next)) return undefined;
    return this.#ring[sequence % this.#capacity];
  }

  /** Returns the newest record of a request id (`x-request-id`; clients may repeat one). Reads all records. */
  byRequestId(requestId: string): DecisionRecord | undefined {
    const kept = shortened(requestId);
    for (let sequence = this.#next - 1; sequence >= this.#oldest; sequence--) {
      const record = this.#ring[sequence % this.#capacity]!;
      if (record.requestId === kept) return record;
    }
    return undefined;
  }

  /** Returns distinct request ids that begin with `start`, the newest first, at most `count`. Reads all records. */
  idsBeginning(start: string, count: number): string[] {
    const found = new Set<string>();
    for (let sequence = this.#next - 1; sequence >= this.#oldest && found.size < count; sequence--) {
      const { requestId } = this.#ring[sequence % this.#capacity]!;
      if (requestId.startsWith(start)) found.add(requestId);
    }
    return [...found];
  }

  /** Returns the newest records, newest first, at most `count`; with `since`, only those after that number. */
  latest(count: number, since = 0): DecisionRecord[] {
    const records: DecisionRecord[] = [];
    const stop = Math.max(this.#oldest, since + 1);
    for (let sequence = this.#next - 1; sequence >= stop && records.length < count; sequence--)
      records.push(this.#ring[sequence % this.#capacity]!);
    return records;
  }

  /**
   * Calls back with each new record, within the decision: copy it and return. A callback that throws is unsubscribed.
   * @returns a function that ends the subscription
   * @throws SluiceError TOO_MANY_SUBSCRIBERS above 64
   */
  onRecord(callback: (record: DecisionRecord) => void): () => void {
    if (this.#subscribers.size >= MAX_SUBSCRIBERS)
      throw new SluiceError(
        "TOO_MANY_SUBSCRIBERS",
        `at most ${MAX_SUBSCRIBERS} clients can follow the decisions at once`,
      );
    this.#subscribers.add(callback);
    return () => this.#subscribers.delete(callback);
  }

  /** Drops older full parts. The newest one stays even if it alone is larger than the limit. */
  #makeRoomForFull(bytes: number): void {
    while (this.#fulls.length > 0 && (this.#fulls.length >= MAX_FULL || this.#fullBytes + bytes > MAX_FULL_BYTES))
      this.#dropOldestFull();
  }

  #dropOldestFull(): void {
    const { record, bytes } = this.#fulls.shift()!;
    record.full = undefined;
    this.#fullBytes -= bytes;
  }

  #dropOldest(): void {
    const at = this.#oldest++ % this.#capacity;
    const record = this.#ring[at]!;
    if (this.#fulls[0]?.record === record) this.#dropOldestFull();
    this.numbers.dropBefore(record.behind);
    this.#ring[at] = undefined;
    this.#bytes -= this.#sizes[at]!;
  }
}

const NO_FILTERS: readonly RecordedFilter[] = [];
const NO_OTHERS: DecisionRecord["others"] = [];
const NO_ENDPOINTS: readonly Endpoint[] = [];

/** The state of a decision so far. */
export interface Deciding {
  readonly request: InferenceRequest;
  readonly candidates: number;
  readonly excludedDown: number;
  /** Monotonic milliseconds of the beginning of the decision. */
  readonly now: number;
  readonly screened?: readonly RecordedFilter[];
  readonly capture?: FullCapture | undefined;
  readonly run?: ProfileRun | undefined;
  readonly listed?: readonly Endpoint[];
  readonly promptBytes?: number;
  readonly others?: DecisionRecord["others"] | undefined;
  readonly refusal?: Rejection | undefined;
  readonly cache?: DecisionRecord["cache"];
}

/** Makes the records of a scheduler's decisions, refusals included. */
export class DecisionLog {
  readonly #records: DecisionRecords;
  readonly #clock: Clock;
  readonly #calls: CallReporter;

  /** @param calls knows the plugins that failed */
  constructor(records: DecisionRecords, clock: Clock, calls: CallReporter) {
    this.#records = records;
    this.#clock = clock;
    this.#calls = calls;
  }

  /** Records a refusal. @returns the refusal */
  refuse(plan: SchedulingPlan, deciding: Deciding & { readonly refusal: Rejection }): Rejection {
    this.#records.add(this.record(plan, deciding));
    return deciding.refusal;
  }

  /** Returns the record of a decision, for `add`. Call it while the state of the decision is unchanged. */
  record({ configHash }: SchedulingPlan, deciding: Deciding): CompactRecord {
    const decided = {
      sequence: this.#records.nextSequence,
      request: deciding.request,
      at: this.#clock.wall(),
      now: deciding.now,
      promptBytes: deciding.promptBytes ?? 0,
      configHash,
      run: deciding.run,
      candidates: deciding.candidates,
      excludedDown: deciding.excludedDown,
      screened: deciding.screened ?? NO_FILTERS,
      failed: this.#calls.failures,
      late: this.#calls.late,
      listed: deciding.listed ?? NO_ENDPOINTS,
      others: deciding.others ?? NO_OTHERS,
      refusal: deciding.refusal,
      full: deciding.capture?.finish(deciding.run),
      cache: deciding.cache,
    };
    return new CompactRecord(decided, this.#records.numbers);
  }

  add(record: CompactRecord): void {
    this.#records.add(record);
  }
}
