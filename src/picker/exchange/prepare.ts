import type { Clock } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Producer } from "../../base/plugin/kinds.ts";
import { missingReason, Unprepared } from "../scheduling/unprepared.ts";

/** The budget in milliseconds of a producer that names none (scheduling 3.3 step 8). */
const DEFAULT_BUDGET = 400;
/** The most requests of the process in preparation at a time. */
const MAX_UNDER_WAY = 4096;

/** A producer that prepares before the decision. */
export interface Preparer {
  /** Instance name. */
  readonly name: string;
  readonly type: string;
  readonly plugin: Pick<Producer, "prepare" | "prepareBudget">;
}

/**
 * The values that producers found, by instance name. A producer that found nothing has no entry; one that failed or took too long
 * has an `Unprepared`.
 */
export type Prepared = ReadonlyMap<string, unknown>;

/** The preparation of one request. */
export interface Preparing {
  /** Never rejects, and takes no longer than the largest budget. Undefined after `abort`. */
  readonly prepared: Promise<Prepared | undefined>;
  /** Ends the preparation, because the request needs no decision any more. No effect once `prepared` is resolved. */
  abort(): void;
}

export interface PreparationParts {
  readonly clock: Clock;
  /**
   * Returns all producers of the configuration in force that have a `prepare`: the same array until the configuration changes.
   */
  readonly preparers: () => readonly Preparer[];
  /** The most requests in preparation at a time, from 1 up; default 4,096. Further requests go on unprepared. */
  readonly limit?: number;
  /** A decision does without a producer, because it failed or took too long, or because too many requests wait. */
  onFailed(preparer: Preparer, error: unknown): void;
}

/**
 * The one asynchronous step, before the decision. Producers that must wait for something do so here, all at the same time, each
 * within its own budget. No producer can read the values of another one here, so their order does not matter. `produce` writes
 * in order later.
 *
 * @remarks scheduling 3.3, S-43
 */
export class Preparation {
  readonly #parts: PreparationParts;
  readonly #limit: number;
  #underWay = 0;

  constructor(parts: PreparationParts) {
    this.#parts = parts;
    this.#limit = parts.limit ?? MAX_UNDER_WAY;
  }

  /** Requests in preparation. A request counts until its last producer has answered, even after its decision. */
  get underWay(): number {
    return this.#underWay;
  }

  /**
   * @returns undefined when no producer prepares. When too many requests are in preparation, nothing is prepared.
   */
  begin(request: InferenceRequest): Preparing | undefined {
    const preparers = this.#parts.preparers();
    if (preparers.length === 0) return undefined;
    if (this.#underWay >= this.#limit) {
      const error = new SluiceError("PREPARE_LIMIT", `${this.#limit} requests already wait for producers`);
      for (const preparer of preparers) this.#parts.onFailed(preparer, error);
      const missing = new Unprepared(missingReason(error));
      return { prepared: Promise.resolve(new Map(preparers.map(({ name }) => [name, missing]))), abort() {} };
    }
    this.#underWay++;
    return new Run(this.#parts, request, preparers, () => this.#underWay--);
  }
}

class Run implements Preparing {
  readonly prepared: Promise<Prepared | undefined>;
  readonly #parts: PreparationParts;
  readonly #asked: readonly Preparer[];
  readonly #found = new Map<string, unknown>();
  readonly #open = new Set<Call>();
  #resolve!: (prepared: Prepared | undefined) => void;

  constructor(parts: PreparationParts, request: InferenceRequest, preparers: readonly Preparer[], free: () => void) {
    this.#parts = parts;
    this.#asked = preparers;
    this.prepared = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    let unsettled = preparers.length;
    for (const preparer of preparers) this.#open.add(new Call(this, preparer));
    for (const call of this.#open)
      call.start(parts.clock, request, () => {
        unsettled--;
        if (unsettled === 0) free();
      });
  }

  abort(): void {
    for (const call of this.#open) call.cancel();
    this.#open.clear();
    this.#resolve(undefined);
  }

  found(call: Call, value: unknown): void {
    if (value !== undefined) this.#found.set(call.preparer.name, value);
    this.#close(call);
  }

  failed(call: Call, error: unknown): void {
    this.#parts.onFailed(call.preparer, error);
    this.#found.set(call.preparer.name, new Unprepared(missingReason(error)));
    this.#close(call);
  }

  #close(call: Call): void {
    this.#open.delete(call);
    if (this.#open.size === 0) this.#resolve(this.#inForce());
  }

  /** Returns the values of the plugins in force now: the configuration may have changed during the preparation. */
  #inForce(): Prepared {
    const now = this.#parts.preparers();
    if (now !== this.#asked)
      for (const { name, plugin } of this.#asked)
        if (!now.some((other) => other.name === name && other.plugin === plugin)) this.#found.delete(name);
    return this.#found;
  }
}

/** The call of one producer for one request. */
class Call {
  readonly preparer: Preparer;
  readonly #run: Run;
  readonly #abort = new AbortController();
  #timer: { cancel(): void } | undefined;
  #over = false;

  constructor(run: Run, preparer: Preparer) {
    this.#run = run;
    this.preparer = preparer;
  }

  /** @param settled called when the producer has answered, in time or late */
  start(clock: Clock, request: InferenceRequest, settled: () => void): void {
    const { name, plugin } = this.preparer;
    const budget = plugin.prepareBudget ?? DEFAULT_BUDGET;
    this.#timer = clock.after(budget, () => {
      const late = new SluiceError("PREPARE_TIMEOUT", `${name} gave no data within its limit of ${budget} ms`);
      if (!this.#end(late)) this.#run.failed(this, late);
    });
    invoke(plugin, request, this.#abort.signal).then(
      (value) => {
        settled();
        if (!this.#end()) this.#run.found(this, value);
      },
      (error: unknown) => {
        settled();
        if (!this.#end()) this.#run.failed(this, error);
      },
    );
  }

  cancel(): void {
    this.#end(new SluiceError("PREPARE_ABORTED", "the request has ended"));
  }

  /** @returns whether the call was over already */
  #end(reason?: SluiceError): boolean {
    if (this.#over) return true;
    this.#over = true;
    this.#timer?.cancel();
    if (reason !== undefined) this.#abort.abort(reason);
    return false;
  }
}

/** Turns a synchronous throw of a plugin into a rejection. */
async function invoke(plugin: Preparer["plugin"], request: InferenceRequest, signal: AbortSignal): Promise<unknown> {
  return plugin.prepare?.(request, signal);
}
