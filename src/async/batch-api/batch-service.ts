import type { Clock, Timer } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { sqliteQueueClient } from "../brokers/sqlite/queue-client.ts";
import type { Dispatcher } from "../dispatch/dispatcher.ts";
import { BatchDispatch, type BatchDispatchDeps, type BatchDispatchSettings } from "./batch-dispatch.ts";
import { BatchEngine } from "./batch-engine.ts";
import { BatchStore } from "./batch-store.ts";
import { BatchFolder } from "./folder.ts";
import type { BatchLimits } from "./records.ts";

/** Milliseconds between two notes of the state of the gate. */
const NOTE = 1000;

export interface BatchServiceOptions extends Omit<BatchDispatchSettings, "queue"> {
  /** The folder of the batches, which this process has locked. */
  readonly folder: string;
  readonly limits: BatchLimits;
  readonly window: number;
  readonly namesBatches: boolean;
}

/** All work on the batches of a folder: the engine, and the dispatcher of its queue. */
export class BatchService {
  readonly #store: BatchStore;
  readonly #engine: BatchEngine;
  readonly #dispatch: BatchDispatch;
  readonly #client: ReturnType<typeof sqliteQueueClient>;
  readonly #clock: Clock;
  readonly #log: Logger;
  #noting: Timer | undefined;

  /** @throws SluiceError BATCH_STORE, QUEUE_FILE_..., GATE_PARAMETERS */
  constructor(options: BatchServiceOptions, deps: BatchDispatchDeps) {
    const { clock, log } = deps;
    this.#clock = clock;
    this.#log = log;
    const folder = new BatchFolder(options.folder);
    this.#store = new BatchStore(folder);
    this.#store.sweep();
    this.#dispatch = new BatchDispatch({ ...options, queue: folder.queue }, deps);
    // The engine finds lost submissions, and drops results that it knows.
    this.#client = sqliteQueueClient(folder.queue, deps, true, false);
    const { limits, window, namesBatches } = options;
    this.#engine = new BatchEngine({
      ...{ store: this.#store, client: this.#client, limits, window, namesBatches, clock, log },
    });
  }

  /** Of the lines. */
  get dispatcher(): Dispatcher {
    return this.#dispatch.dispatcher;
  }

  /** @throws SluiceError BROKER_UNAVAILABLE */
  async start(): Promise<void> {
    // This process has the folder to itself, so whoever claimed these is gone.
    await this.#client.requeueClaims();
    this.#dispatch.start();
    this.#engine.start();
    this.#note();
  }

  /** Batches are new or cancelled. */
  wake(): void {
    this.#engine.wake();
  }

  /** @param drainTimeout milliseconds for requests under way */
  async stop(drainTimeout: number): Promise<void> {
    this.#noting?.cancel();
    await this.#dispatch.stop(drainTimeout);
    await this.#engine.stop();
    this.#client.close();
    this.#store.close();
  }

  #note(): void {
    this.#noting = this.#clock.after(NOTE, () => this.#note(), true);
    try {
      this.#store.keepGate(this.#dispatch.state);
    } catch (error) {
      this.#log.warn({ error: messageOf(error) }, "the state of the gate cannot be noted");
    }
  }
}
