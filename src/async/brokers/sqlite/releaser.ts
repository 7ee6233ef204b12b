import type { HeldMessages, QueueReleaser } from "../queue-client.ts";
import { breathe, type QueueFile, type SqliteDeps } from "./queue-file.ts";
import type { QueueTables } from "./tables.ts";
import { requestSignal } from "./wakeup-signal.ts";

/** Messages per transaction. */
const STEP = 1000;

/** Hands back what dispatchers have of the queues of a file. */
export class SqliteReleaser implements QueueReleaser {
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #deps: SqliteDeps;

  constructor(file: QueueFile, tables: QueueTables, deps: SqliteDeps) {
    this.#file = file;
    this.#tables = tables;
    this.#deps = deps;
  }

  /** A file knows nothing of the processes that have it open. */
  async dispatchers(): Promise<undefined> {
    return undefined;
  }

  async held(queueName: string): Promise<HeldMessages> {
    return this.#file.read(() => {
      const queue = this.#tables.queue(queueName);
      const lastLease = this.#tables.lastLease(queue);
      const { claimed } = this.#tables.counts(queue);
      return { claimed, lastLease, leaseLeft: Math.max(0, lastLease - this.#deps.clock.wall()) };
    });
  }

  async release(queueName: string, all: boolean): Promise<number> {
    const { claimed } = await this.held(queueName);
    return this.#inSteps(queueName, claimed, (queue) => {
      const until = all ? Number.POSITIVE_INFINITY : this.#deps.clock.wall();
      return this.#tables.release(queue, until, STEP);
    });
  }

  async unpark(queueName: string): Promise<number> {
    return this.#inSteps(queueName, Number.POSITIVE_INFINITY, (queue) =>
      this.#tables.moveDue(queue, Number.POSITIVE_INFINITY, STEP),
    );
  }

  /** @param most a dispatcher that goes on claiming could keep this busy for ever */
  async #inSteps(queueName: string, most: number, step: (queue: number) => number): Promise<number> {
    let moved = 0;
    for (;;) {
      const done = await this.#file.write(() => step(this.#tables.queue(queueName)));
      moved += done;
      if (done < STEP || moved >= most) break;
      await breathe(this.#deps.clock);
    }
    if (moved > 0) requestSignal(this.#file.path, this.#deps).send();
    return moved;
  }
}
