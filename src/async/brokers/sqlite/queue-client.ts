import { resolve } from "node:path";
import type { Backlog } from "../broker.ts";
import type { Producer } from "../producer.ts";
import { INBOX_BYTES, type QueueClient, type ResultInbox } from "../queue-client.ts";
import { readBacklog } from "./backlog.ts";
import { SqliteInspector } from "./inspector.ts";
import { sqliteProducer } from "./producer.ts";
import { QueueFile, type SqliteDeps } from "./queue-file.ts";
import { QueueTables } from "./tables.ts";

/**
 * @param create false: a file that does not exist is not made
 * @throws SluiceError QUEUE_FILE_FOREIGN, QUEUE_FILE_NEWER, QUEUE_FILE_CORRUPT, BROKER_UNAVAILABLE
 */
export function sqliteQueueClient(path: string, deps: SqliteDeps, create: boolean): QueueClient {
  const file = new QueueFile(path, deps, create);
  // What may pass was only logged: nobody waits here for it to pass.
  file.read(() => file.statement("SELECT id FROM store").get());
  return new SqliteClient(file, deps);
}

class SqliteClient implements QueueClient {
  readonly place: string;
  readonly sharedRetries = false;
  readonly inspector: SqliteInspector;
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #deps: SqliteDeps;

  constructor(file: QueueFile, deps: SqliteDeps) {
    this.place = `queue file ${resolve(file.path)}`;
    this.inspector = new SqliteInspector(file.path, deps);
    this.#file = file;
    this.#tables = new QueueTables(file);
    this.#deps = deps;
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

  async backlog(queueName: string): Promise<Backlog> {
    return this.#file.read(() => readBacklog(this.#tables, queueName));
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
  /** Sequence number of the newest that was read; 0 = none. */
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
