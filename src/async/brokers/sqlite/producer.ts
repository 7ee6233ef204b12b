import { SluiceError } from "../../../base/inference/errors.ts";
import type { ResultMessage } from "../messages/message.ts";
import { parseResult } from "../messages/result.ts";
import { type Submission, submission } from "../messages/submission.ts";
import type { Producer, SubmitRequest } from "../queue-client.ts";
import { requestToken } from "../request-token.ts";
import { breathe, QueueFile, type SqliteDeps } from "./queue-file.ts";
import { TableResultReader } from "./result-reader.ts";
import { QueueTables } from "./tables.ts";
import { requestSignal, type WakeupSignal } from "./wakeup-signal.ts";

/** Most rows that one transaction changes. */
const BATCH = 512;

export interface SqliteProducerSettings {
  /** Path of the database file. The file is created if needed, its folder is not. */
  readonly path: string;
  readonly requestQueueName: string;
  readonly resultQueueName: string;
}

/**
 * A producer on a SQLite file.
 * @throws SluiceError REQUEST_INVALID; QUEUE_FILE_FOREIGN, QUEUE_FILE_NEWER, QUEUE_FILE_CORRUPT when the file must not be used
 */
export function sqliteProducer(settings: SqliteProducerSettings, deps: SqliteDeps): Producer {
  if (!settings.resultQueueName) throw new SluiceError("REQUEST_INVALID", "ResultQueueName is required");
  return new SqliteProducer(settings, deps);
}

class SqliteProducer implements Producer {
  readonly #settings: SqliteProducerSettings;
  readonly #deps: SqliteDeps;
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #requestSignal: WakeupSignal;
  readonly #results: TableResultReader;

  constructor(settings: SqliteProducerSettings, deps: SqliteDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#file = new QueueFile(settings.path, deps);
    this.#tables = new QueueTables(this.#file);
    this.#requestSignal = requestSignal(settings.path, deps);
    this.#results = new TableResultReader(this.#file, this.#tables, settings.resultQueueName, deps);
  }

  submitRequest(request: SubmitRequest): Promise<void> {
    return this.submitRequests([request]);
  }

  async submitRequests(requests: readonly SubmitRequest[]): Promise<void> {
    const now = this.#deps.clock.wall() / 1000;
    const all = requests.map((request) =>
      submission(request, { ...this.#settings, now, token: requestToken(this.#deps.random) }),
    );
    for (let at = 0; at < all.length; at += BATCH) {
      if (at > 0) await breathe(this.#deps.clock);
      const some = all.slice(at, at + BATCH);
      try {
        await this.#file.write(() => this.#add(some));
      } catch (error) {
        if (at === 0) throw error;
        const problem = `the first ${at} of ${all.length} requests were queued, the others were not`;
        throw new SluiceError("BROKER_UNAVAILABLE", problem, { cause: error });
      }
      this.#requestSignal.send();
    }
  }

  async cancelRequests(ids: readonly string[]): Promise<void> {
    for (let at = 0; at < ids.length; at += BATCH) {
      const some = ids.slice(at, at + BATCH).filter((id) => id !== "");
      await this.#file.write(() => {
        for (const id of some) this.#tables.cancel(id);
      });
    }
  }

  async getResult(signal?: AbortSignal): Promise<ResultMessage> {
    return parseResult(await this.#results.next(signal));
  }

  async requestQueueDepth(): Promise<number> {
    return this.#file.read(() => this.#tables.counts(this.#tables.queue(this.#settings.requestQueueName)).waiting);
  }

  async resultQueueDepth(): Promise<number> {
    return this.#file.read(() => this.#tables.countResults(this.#settings.resultQueueName));
  }

  async clearRequestQueue(): Promise<void> {
    const { requestQueueName } = this.#settings;
    while ((await this.#file.write(() => this.#tables.clear(this.#tables.queue(requestQueueName), BATCH))) === BATCH);
  }

  async clearResultQueue(): Promise<void> {
    const { resultQueueName } = this.#settings;
    while ((await this.#file.write(() => this.#tables.takeResults(resultQueueName, BATCH).length)) === BATCH);
  }

  async close(): Promise<void> {
    this.#results.close();
    this.#file.close();
  }

  #add(submissions: readonly Submission[]): void {
    const published = this.#deps.clock.wall();
    let name = "";
    let queue = 0;
    for (const { id, requestQueueName, envelope, deadline } of submissions) {
      if (requestQueueName !== name) {
        name = requestQueueName;
        queue = this.#tables.makeQueue(name);
      }
      this.#tables.add(queue, id, envelope, deadline, published);
    }
  }
}
