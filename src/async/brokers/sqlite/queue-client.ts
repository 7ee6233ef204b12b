import { resolve } from "node:path";
import type { QueueBacklog } from "../broker.ts";
import { revived } from "../intake.ts";
import {
  type DeadLetter,
  INBOX_BYTES,
  type Producer,
  type QueueClient,
  type QueueEntry,
  type QueueInspector,
  type QueueReleaser,
  type ResultInbox,
} from "../queue-client.ts";
import { sqliteProducer } from "./producer.ts";
import { QueueFile, type SqliteDeps } from "./queue-file.ts";
import { SqliteReleaser } from "./releaser.ts";
import { entryText } from "./rows.ts";
import { QueueTables } from "./tables.ts";
import { requestSignal, type WakeupSignal } from "./wakeup-signal.ts";

/**
 * @param create false: a missing file is not created
 * @throws SluiceError QUEUE_FILE_FOREIGN, QUEUE_FILE_NEWER, QUEUE_FILE_CORRUPT, BROKER_UNAVAILABLE
 */
export function sqliteQueueClient(path: string, deps: SqliteDeps, create: boolean): QueueClient {
  const file = new QueueFile(path, deps, create);
  // A temporary error was only logged until now. This read throws it: a command does not wait for it to pass.
  file.read(() => file.statement("SELECT id FROM store").get());
  return new SqliteClient(file, deps);
}

class SqliteClient implements QueueClient {
  readonly place: string;
  readonly sharedRetries = false;
  readonly inspector: SqliteInspector;
  readonly releaser: QueueReleaser;
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #deps: SqliteDeps;

  constructor(file: QueueFile, deps: SqliteDeps) {
    this.place = `queue file ${resolve(file.path)}`;
    this.inspector = new SqliteInspector(file.path, deps);
    this.#file = file;
    this.#tables = new QueueTables(file);
    this.#deps = deps;
    this.releaser = new SqliteReleaser(file, this.#tables, deps);
  }

  async producer(requestQueueName: string, resultQueueName: string): Promise<Producer> {
    return sqliteProducer({ path: this.#file.path, requestQueueName, resultQueueName }, this.#deps);
  }

  inbox(resultQueueName: string): ResultInbox {
    return new TableInbox(this.#file, this.#tables, resultQueueName);
  }

  async outstanding(ids: readonly string[]): Promise<readonly boolean[]> {
    return this.#file.read(() => ids.map((id) => this.#tables.isOutstanding(id)));
  }

  async backlog(queueName: string): Promise<QueueBacklog> {
    return this.#file.read(() => this.#tables.backlog(queueName));
  }

  async resultDepth(resultQueueName: string): Promise<number> {
    return this.#file.read(() => this.#tables.countResults(resultQueueName));
  }

  async names(): Promise<{ readonly queues: readonly string[]; readonly results: readonly string[] }> {
    return this.#file.read(() => ({ queues: this.#tables.queueNames(), results: this.#tables.resultQueueNames() }));
  }

  close(): void {
    this.inspector.close();
    this.#file.close();
  }
}

/** The results of one queue in the file. */
class TableInbox implements ResultInbox {
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #queueName: string;
  /** Sequence number of the newest result that was read; 0 = none. */
  #last = 0;

  constructor(file: QueueFile, tables: QueueTables, queueName: string) {
    this.#file = file;
    this.#tables = tables;
    this.#queueName = queueName;
  }

  async read(count: number): Promise<readonly string[]> {
    const rows = this.#file.read(() => this.#tables.peekResults(this.#queueName, count, INBOX_BYTES));
    this.#last = rows.at(-1)?.seq ?? 0;
    return rows.map(({ body }) => body);
  }

  async remove(): Promise<void> {
    if (this.#last > 0) await this.#file.write(() => this.#tables.removeResults(this.#queueName, this.#last));
    this.#last = 0;
  }
}

/** Reads a queue file, which must exist. */
export class SqliteInspector implements QueueInspector {
  readonly #deps: SqliteDeps;
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #requestSignal: WakeupSignal;

  /** @throws SluiceError QUEUE_FILE_FOREIGN, QUEUE_FILE_NEWER, QUEUE_FILE_CORRUPT */
  constructor(path: string, deps: SqliteDeps) {
    this.#deps = deps;
    this.#file = new QueueFile(path, deps, false);
    this.#tables = new QueueTables(this.#file);
    this.#requestSignal = requestSignal(path, deps);
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
    if (requeued > 0) this.#requestSignal.send();
    return requeued;
  }

  close(): void {
    this.#file.close();
  }
}
