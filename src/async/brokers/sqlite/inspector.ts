import { revived } from "../intake.ts";
import type { DeadLetter, QueueEntry, QueueInspector } from "../producer.ts";
import { type Doorbell, requestBell } from "./doorbell.ts";
import { QueueFile, type SqliteDeps } from "./queue-file.ts";
import { entryText } from "./rows.ts";
import { QueueTables } from "./tables.ts";

/** Looks into a queue file, which must exist. */
export class SqliteInspector implements QueueInspector {
  readonly #deps: SqliteDeps;
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #requestBell: Doorbell;

  /** @throws SluiceError QUEUE_FILE_FOREIGN, QUEUE_FILE_NEWER, QUEUE_FILE_CORRUPT */
  constructor(path: string, deps: SqliteDeps) {
    this.#deps = deps;
    this.#file = new QueueFile(path, deps, false);
    this.#tables = new QueueTables(this.#file);
    this.#requestBell = requestBell(path, deps);
  }

  async peek(queueName: string, count: number): Promise<readonly QueueEntry[]> {
    return this.#file.read(() =>
      this.#tables
        .peek(this.#tables.queue(queueName), count)
        .map((row) => ({ entry: entryText(row), score: row.score })),
    );
  }

  async dead(queueName: string, count: number): Promise<readonly DeadLetter[]> {
    return this.#file.read(() =>
      this.#tables.dead(this.#tables.queue(queueName), count).map(({ entry, reason, at }) => ({ entry, reason, at })),
    );
  }

  async requeueDead(queueName: string, count: number): Promise<number> {
    const requeued = await this.#file.write(() => {
      const queue = this.#tables.queue(queueName);
      const letters = this.#tables.dead(queue, count);
      for (const { seq, entry } of letters) {
        const { id, text, score } = revived(entry);
        this.#tables.add(queue, id, text, score, this.#deps.clock.wall());
        this.#tables.removeDead(seq);
      }
      return letters.length;
    });
    if (requeued > 0) this.#requestBell.ring();
    return requeued;
  }

  close(): void {
    this.#file.close();
  }
}
