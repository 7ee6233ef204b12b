import { delay, type Timer } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { BatchTask, type TaskParts } from "./batch-task.ts";
import type { EngineOptions } from "./engine-options.ts";

/** Milliseconds between two looks at the batches, and between two at what is to be removed. */
const LOOK = 500;
const TIDY = 60_000;
/** Milliseconds until a batch goes on after a problem, such as a full disk. */
const AGAIN = 5000;

/** A batch that is worked on. */
interface Running {
  readonly task: BatchTask;
  readonly ended: Promise<void>;
}

/**
 * Works on all open batches: validates one at a time, and runs the others side by side. All that it knows is in the folder, so a
 * process that ends at any point leaves batches that the next one goes on with.
 */
export class BatchEngine {
  readonly #options: EngineOptions;
  readonly #stopping = new AbortController();
  readonly #running = new Map<string, Running>();
  /** Batches whose input waits for its check, with their owners. */
  readonly #unchecked: { readonly owner: string; begin(): void }[] = [];
  #checking = false;
  #lastOwner = "";
  #looking: Timer | undefined;
  #tidying: Timer | undefined;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  start(): void {
    this.#look();
    this.#tidy();
  }

  /** Looks for batches that are new or cancelled. */
  wake(): void {
    if (this.#stopping.signal.aborted) return;
    this.#looking?.cancel();
    this.#look();
  }

  /** Ends the work on all batches; a later process goes on. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#looking?.cancel();
    this.#tidying?.cancel();
    for (const { begin } of this.#unchecked.splice(0)) begin();
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  #look(): void {
    const { store, clock, log } = this.#options;
    this.#looking = clock.after(LOOK, () => this.#look(), true);
    try {
      for (const { id, owner, status } of store.batches.open()) {
        const running = this.#running.get(id);
        if (running === undefined) this.#begin(id, owner);
        else if (status === "cancelling") running.task.cancel();
      }
    } catch (error) {
      log.error({ error: messageOf(error) }, "the batches cannot be read now");
    }
  }

  #begin(id: string, owner: string): void {
    const parts: TaskParts = {
      ...this.#options,
      checkTurn: () => this.#checkTurn(owner),
      signal: this.#stopping.signal,
    };
    const task = new BatchTask(id, parts);
    this.#running.set(id, { task, ended: this.#work(id, task) });
  }

  /** Works on a batch until it has ended, or the engine stops. */
  async #work(id: string, task: BatchTask): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stopping;
    for (;;)
      try {
        await task.run();
        break;
      } catch (error) {
        if (signal.aborted) break;
        const problem = messageOf(error);
        log.error(
          { batch: id, code: error instanceof SluiceError ? error.code : "", error: problem },
          "a batch cannot go on now; Sluice tries again",
        );
        task.tell(problem);
        await delay(clock, AGAIN, signal).catch(() => {});
        if (signal.aborted) break;
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
  #tidy(): void {
    const { store, clock, log, limits } = this.#options;
    this.#tidying = clock.after(TIDY, () => this.#tidy(), true);
    try {
      const now = clock.wall() / 1000;
      while (store.files.expire(now) > 0);
      while (store.batches.forget(now - limits.keep) > 0);
    } catch (error) {
      log.error({ error: messageOf(error) }, "old files of batches cannot be removed now");
    }
  }
}
