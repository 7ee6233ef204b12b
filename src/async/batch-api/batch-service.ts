import type { Clock, Timer } from "../../base/clock/clock.ts";
import { SHARED_BATCH_METRICS } from "../../base/telemetry/batch-api-metrics.ts";
import { type MetricsRegistry, registerTable } from "../../base/telemetry/registry.ts";
import type { Dispatcher } from "../dispatch/dispatcher.ts";
import { undiciClient } from "../dispatch/send/undici-client.ts";
import { BatchDispatch, type BatchDispatchDeps, type BatchDispatchSettings } from "./batch-dispatch.ts";
import { BatchEngine } from "./batch-engine.ts";
import type { WorkPlace } from "./batch-place.ts";
import type { Batches } from "./batches.ts";
import { LineQueue } from "./line-queue.ts";
import { Outage } from "./outage.ts";
import type { BatchLimits } from "./records.ts";
import type { S3Mover } from "./s3-mover.ts";
import { Webhook, type WebhookSettings } from "./webhook.ts";

/** Milliseconds between two notes of the state of the gate. */
const NOTE = 1000;
/** Bytes of the longest answer of a webhook; a longer one counts by its status, too. */
const MOST_REPLY = 16 * 1024;

export interface BatchServiceOptions extends BatchDispatchSettings {
  readonly limits: BatchLimits;
  readonly window: number;
  readonly namesBatches: boolean;
  /** Who is told of the ends of batches; undefined = nobody. */
  readonly webhook: WebhookSettings | undefined;
}

/** All work on the batches of a place: the engine, and the dispatcher of its queue. */
export class BatchService {
  readonly #store: Batches;
  readonly #engine: BatchEngine;
  readonly #dispatch: BatchDispatch;
  readonly #webhook: Webhook | undefined;
  readonly #mover: S3Mover | undefined;
  readonly #clock: Clock;
  readonly #outage: Outage;
  #noting: Timer | undefined;
  #isEnding = false;

  /**
   * @param place closed by `stop`
   * @throws SluiceError GATE_PARAMETERS
   */
  constructor(options: BatchServiceOptions, deps: BatchDispatchDeps, { batches, mover }: WorkPlace) {
    const { clock, log } = deps;
    this.#clock = clock;
    this.#outage = new Outage(
      deps,
      "the state of the batch gate cannot be stored",
      "the state of the batch gate is stored again",
    );
    this.#store = batches;
    this.#mover = mover;
    const queue = new LineQueue(clock);
    this.#dispatch = new BatchDispatch(queue, options, deps);
    const { limits, window, namesBatches, webhook } = options;
    if (webhook !== undefined) {
      const client = undiciClient({ totalWorkers: 1, maxResponseBytes: MOST_REPLY, clock });
      this.#webhook = new Webhook({ ...webhook, ...deps, events: this.#store.events, client });
    }
    this.#engine = new BatchEngine({
      ...{ store: this.#store, queue, limits, window, namesBatches, clock, log },
    });
  }

  /** Of the lines. */
  get dispatcher(): Dispatcher {
    return this.#dispatch.dispatcher;
  }

  /** Shows what this process shares with others, where it does. @returns a function that ends it */
  showMetrics(registry: MetricsRegistry): () => void {
    if (this.#engine.shared === undefined) return () => {};
    const { batchesHeld, batchesLost, storeSilence } = registerTable(registry, SHARED_BATCH_METRICS);
    const [held, lost, silence] = [batchesHeld.with(), batchesLost.with(), storeSilence.with()];
    return registry.onRender(() => {
      const shared = this.#engine.shared!;
      held.set(shared.held);
      lost.inc(shared.lost - lost.value);
      silence.set(shared.silence);
    });
  }

  start(): void {
    this.#dispatch.start();
    this.#engine.start();
    this.#webhook?.start();
    this.#mover?.start();
    void this.#note();
  }

  /** Batches are new or cancelled. */
  wake(): void {
    this.#engine.wake();
  }

  /** @param drainTimeout milliseconds for requests under way */
  async stop(drainTimeout: number): Promise<void> {
    this.#noting?.cancel();
    this.#isEnding = true;
    this.#engine.drain();
    await this.#dispatch.stop(drainTimeout);
    await this.#engine.stop();
    await this.#webhook?.stop();
    await this.#mover?.stop();
    this.#store.close();
  }

  async #note(): Promise<void> {
    try {
      await this.#store.keepGate(this.#dispatch.state, this.#clock.wall());
      this.#outage.succeeded();
    } catch (error) {
      // That a shared store is away is what the engine tells.
      if (this.#engine.shared === undefined) this.#outage.failed(error);
    }
    if (!this.#isEnding) this.#noting = this.#clock.after(NOTE, () => void this.#note(), true);
  }
}
