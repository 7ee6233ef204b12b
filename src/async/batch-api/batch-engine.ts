import { delay, type Timer } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { isOpen } from "./batch-status.ts";
import { BatchTask, type TaskParts } from "./batch-task.ts";
import { type HeldBatch, LeaseLost } from "./batches.ts";
import type { EngineOptions } from "./engine-options.ts";
import { Outage } from "./outage.ts";

/** Milliseconds between two looks at the batches, and between two at what is to be removed. */
const LOOK = 500;
const TIDY = 60_000;
/** Milliseconds until a batch goes on after a problem, such as a full disk. */
const AGAIN = 5000;

/** What an engine shares with those of other processes. */
export interface SharedFigures {
  /** Batches that it works on. */
  readonly held: number;
  /** Batches that others took over while it worked on them. */
  readonly lost: number;
  /** Seconds since the store answered last. */
  readonly silence: number;
}

/** A batch that is worked on. */
interface Running {
  readonly task: BatchTask;
  readonly epoch: number;
  /** Ends the work when another process has the batch. */
  readonly lost: AbortController;
  readonly ended: Promise<void>;
}

/**
 * Works on all open batches that this process holds: validates one at a time, and runs the others side by side. All that it knows is
 * in the store, so a process that ends at any point leaves batches that the next one goes on with. Without an answer of the store
 * within the lease, others may work on the batches: then no further line leaves the queue until the store says whose they are.
 */
export class BatchEngine {
  readonly #options: EngineOptions;
  readonly #stopping = new AbortController();
  readonly #running = new Map<string, Running>();
  /** Batches whose input waits for its check, with their owners. */
  readonly #unchecked: { readonly owner: string; begin(): void }[] = [];
  #checking = false;
  #lost = 0;
  #lastOwner = "";
  #takesMore = true;
  #looking: Timer | undefined;
  /** The look under way; `again` = another one is wanted after it. */
  #look: { again: boolean; readonly ended: Promise<void> } | undefined;
  /** Monotonic milliseconds at which the last look began that the store answered. */
  #heldAt: number;
  #tidying: Timer | undefined;
  readonly #outage: Outage;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#outage = new Outage(
      options,
      "the batches cannot be read now; Sluice tries again every half second",
      "the batches can be read again",
    );
    this.#heldAt = options.clock.now();
  }

  /** What it shares with other processes; undefined = nothing. */
  get shared(): SharedFigures | undefined {
    const { store, clock } = this.#options;
    if (!Number.isFinite(store.lease)) return undefined;
    return { held: this.#running.size, lost: this.#lost, silence: (clock.now() - this.#heldAt) / 1000 };
  }

  start(): void {
    this.#lookNow();
    void this.#tidy();
  }

  /** Looks for batches that are new or cancelled. */
  wake(): void {
    if (!this.#stopping.signal.aborted) this.#lookNow();
  }

  /** Takes no further batch: the process is about to end. */
  drain(): void {
    this.#takesMore = false;
  }

  /** Ends the work on all batches; a later process goes on. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#looking?.cancel();
    this.#tidying?.cancel();
    await this.#look?.ended;
    for (const { begin } of this.#unchecked.splice(0)) begin();
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
    await this.#options.store
      .release()
      .catch((error) =>
        this.#options.log.warn(
          { error: messageOf(error) },
          "the lease of the batches cannot be released; the batches wait until the lease ends",
        ),
      );
  }

  #lookNow(): void {
    if (this.#look !== undefined) {
      this.#look.again = true;
      return;
    }
    const look = { again: false, ended: this.#lookOnce().finally(() => this.#lookedOnce(look.again)) };
    this.#look = look;
  }

  #lookedOnce(again: boolean): void {
    this.#look = undefined;
    if (this.#stopping.signal.aborted) return;
    this.#looking?.cancel();
    if (again) this.#lookNow();
    else this.#looking = this.#options.clock.after(LOOK, () => this.#lookNow(), true);
  }

  async #lookOnce(): Promise<void> {
    const { store, queue, clock } = this.#options;
    const began = clock.now();
    try {
      const held = await store.look(this.#takesMore);
      if (this.#stopping.signal.aborted) return;
      this.#outage.succeeded();
      this.#heldAt = began;
      await this.#follow(held);
      // The store counts the lease from a later moment.
      queue.allow(began + store.lease);
    } catch (error) {
      this.#outage.failed(error);
    }
  }

  async #follow(held: readonly HeldBatch[]): Promise<void> {
    const epochs = new Map(held.map(({ id, epoch }) => [id, epoch]));
    for (const [id, { epoch, lost, task }] of this.#running) {
      const now = epochs.get(id);
      if (now === epoch) continue;
      const batch = now === undefined ? await this.#options.store.any(id) : undefined;
      // A batch that this process has ended is not held any more, either; but while it has lines, only another process can end it.
      if (now === undefined && !task.hasLines && (batch === undefined || !isOpen(batch.status))) continue;
      lost.abort(new LeaseLost(id));
      task.drop();
    }
    for (const batch of held) {
      const running = this.#running.get(batch.id);
      // A batch that was lost and is held again begins once its former work has ended.
      if (running === undefined) this.#begin(batch);
      else if (batch.status === "cancelling") running.task.cancel();
    }
  }

  #begin(batch: HeldBatch): void {
    const lost = new AbortController();
    const parts: TaskParts = {
      ...this.#options,
      checkTurn: () => this.#checkTurn(batch.owner),
      signal: AbortSignal.any([this.#stopping.signal, lost.signal]),
    };
    const task = new BatchTask(batch, parts);
    this.#running.set(batch.id, { task, epoch: batch.epoch, lost, ended: this.#work(batch.id, task, lost.signal) });
  }

  /** Works on a batch until it has ended or is lost, or the engine stops. */
  async #work(id: string, task: BatchTask, lost: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    const signal = AbortSignal.any([this.#stopping.signal, lost]);
    for (;;)
      try {
        await task.run();
        break;
      } catch (error) {
        if (lost.aborted || error instanceof LeaseLost) {
          this.#lost++;
          log.warn({ batch: id }, "another process took the batch over, so this process stops its work");
          await task
            .leave()
            .catch((cause) =>
              log.warn({ batch: id, error: messageOf(cause) }, "local files of a batch cannot be removed"),
            );
          break;
        }
        if (signal.aborted) break;
        const problem = messageOf(error);
        log.error(
          { batch: id, code: error instanceof SluiceError ? error.code : "", error: problem },
          "a batch cannot continue now; Sluice tries again",
        );
        await task.tell(problem);
        await delay(clock, AGAIN, signal).catch(() => {});
        if (this.#stopping.signal.aborted) break;
      }
    this.#running.delete(id);
  }

  /**
   * Waits until an input may be checked: one at a time, and by turns of the callers.
   * @returns a function that ends the turn
   */
  async #checkTurn(owner: string): Promise<() => void> {
    if (this.#checking && !this.#stopping.signal.aborted)
      await new Promise<void>((begin) => this.#unchecked.push({ owner, begin }));
    this.#checking = true;
    this.#lastOwner = owner;
    return () => {
      this.#checking = false;
      const other = this.#unchecked.findIndex((each) => each.owner !== this.#lastOwner);
      const [next] = this.#unchecked.splice(Math.max(0, other), 1);
      if (next === undefined) return;
      // The turn passes on at once, so that no newcomer takes it.
      this.#checking = true;
      next.begin();
    };
  }

  /** Removes files whose time is over, and batches that ended long ago. */
  async #tidy(): Promise<void> {
    const { store, clock, log, limits } = this.#options;
    try {
      await store.tidy(clock.wall() / 1000, limits.keep);
    } catch (error) {
      log.error({ error: messageOf(error) }, "old files of batches cannot be removed now");
    }
    if (!this.#stopping.signal.aborted) this.#tidying = clock.after(TIDY, () => void this.#tidy(), true);
  }
}
