import { existsSync, statSync } from "node:fs";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { type Clock, delay } from "../../../base/clock/clock.ts";
import type { Random } from "../../../base/clock/random.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import { requestToken } from "../request-token.ts";
import { prepareSchema } from "./schema.ts";

/** Milliseconds that SQLite may block this process while another one writes. */
const BUSY_TIMEOUT = 2;
/** Milliseconds between attempts to write while other processes write, and how long the attempts go on. */
const PAUSE = 1;
const PATIENCE = 1000;
/** Bytes that the write-ahead log is cut back to after it has grown. */
const LOG_LIMIT = 64 * 1024 * 1024;

type Sync = "disk" | "later";

export interface SqliteDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

/** A connection to a queue file: opened on first use, and opened again after the file was replaced, before any further work. */
export class QueueFile {
  readonly path: string;
  readonly #deps: SqliteDeps;
  readonly #create: boolean;
  readonly #statements = new Map<string, StatementSync>();
  #db: DatabaseSync | undefined;
  #sync: Sync = "disk";
  #id = "";
  #inode = 0;
  #closed = false;

  /**
   * @param create false: a missing file is not created
   * @throws SluiceError QUEUE_FILE_FOREIGN, QUEUE_FILE_NEWER, QUEUE_FILE_CORRUPT; later calls try again after a temporary error
   */
  constructor(path: string, deps: SqliteDeps, create = true) {
    this.path = path;
    this.#deps = deps;
    this.#create = create;
    try {
      this.#open();
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== "BROKER_UNAVAILABLE") throw error;
      deps.log.warn({ path, error: error.message }, "queue file cannot be opened yet");
    }
  }

  /** Tells this file from another one that may replace it some day, also from a copy of itself. */
  get id(): string {
    return `${this.#id}@${this.#inode}`;
  }

  /** The id of the store: copies of a file are the same store at different times. */
  get store(): string {
    return this.#id;
  }

  /** Reads outside a transaction; each statement sees the data that is committed then. @throws SluiceError */
  read<T>(work: () => T): T {
    try {
      this.#open();
      return work();
    } catch (error) {
      throw sqliteError(this.path, error);
    }
  }

  /**
   * Runs `work` in one transaction as soon as no other process writes; when it throws, nothing was written. SQLite's own way of
   * waiting blocks the process and sleeps longer from time to time. Beside a process that writes without a pause, it hardly
   * ever gets its turn.
   * @param sync "disk": the data is on disk when this returns. "later": the data is on disk after the next "disk" write; every
   * process sees it at once, and only a machine that loses its power forgets it. Claims and leases need no more: a forgotten
   * claim is in the queue again.
   * @throws SluiceError
   */
  async write<T>(work: () => T, sync: Sync = "disk"): Promise<T> {
    const { clock, random } = this.#deps;
    const end = clock.now() + PATIENCE;
    for (;;) {
      try {
        return this.writeNow(work, sync);
      } catch (error) {
        if (!isBusy(error) || clock.now() >= end) throw error;
      }
      await delay(clock, PAUSE * (0.5 + random.next()));
    }
  }

  /** As `write`, at once or not at all. */
  writeNow<T>(work: () => T, sync: Sync = "disk"): T {
    try {
      const db = this.#open();
      if (sync !== this.#sync) db.exec(`PRAGMA synchronous = ${sync === "disk" ? "FULL" : "NORMAL"}`);
      this.#sync = sync;
      this.statement("BEGIN IMMEDIATE").run();
      try {
        const value = work();
        this.statement("COMMIT").run();
        return value;
      } catch (error) {
        if (db.isTransaction) db.exec("ROLLBACK");
        throw error;
      }
    } catch (error) {
      throw sqliteError(this.path, error);
    }
  }

  /** A prepared statement of the open file; only within `read` and `write`. @param sql one of a fixed set of texts */
  statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#db!.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  /** Reads from the file that is at the path now. @throws SluiceError when it cannot be used */
  follow(): void {
    this.read(() => this.statement("SELECT id FROM store").get());
  }

  close(): void {
    this.#closed = true;
    this.#drop();
  }

  /** Opens the file that is at the path now: writes to a deleted file are lost. */
  #turn(): void {
    if (this.#db === undefined || this.#db.isTransaction || inodeOf(this.path) === this.#inode) return;
    this.#deps.log.error({ path: this.path }, "queue file was moved or removed while in use");
    this.#drop();
  }

  #drop(): void {
    this.#statements.clear();
    this.#db?.close();
    this.#db = undefined;
  }

  #open(): DatabaseSync {
    this.#turn();
    if (this.#db !== undefined) return this.#db;
    if (this.#closed) throw new SluiceError("BROKER_UNAVAILABLE", `queue file ${this.path} was closed`);
    if (!this.#create && !existsSync(this.path))
      throw new SluiceError("BROKER_UNAVAILABLE", `there is no queue file ${this.path}`);
    let db: DatabaseSync | undefined;
    try {
      db = new DatabaseSync(this.path, { timeout: BUSY_TIMEOUT });
      this.#id = prepareSchema(db, this.path, requestToken(this.#deps.random));
      db.exec(`PRAGMA journal_size_limit = ${LOG_LIMIT}`);
    } catch (error) {
      db?.close();
      throw sqliteError(this.path, error);
    }
    this.#inode = inodeOf(this.path);
    this.#sync = "disk";
    this.#db = db;
    return db;
  }
}

/** 0 when there is no file. */
function inodeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.ino ?? 0;
}

/** Between two transactions the process does its other work. */
export function breathe(clock: Clock): Promise<void> {
  return new Promise((resolve) => clock.soon(resolve));
}

/** Primary result codes of SQLite for temporary errors: trying again later makes sense. */
const PASSING: Readonly<Record<number, string>> = {
  5: "another process holds its lock",
  6: "another statement holds its lock",
  7: "no memory left",
  8: "the file is read-only for this process: check the owner and the mode of the file and its folder",
  10: "a read or write on the disk failed",
  13: "the disk is full",
  14: "the file cannot be opened: check that its folder exists and is writable",
  15: "another process holds its lock",
};
const BUSY: ReadonlySet<number> = new Set([5, 6, 15]);
const CORRUPT = 11;
const NOT_A_DATABASE = 26;

/** The primary result code of an error of node:sqlite; undefined for every other error. */
function codeOf(error: unknown): number | undefined {
  const code = error instanceof Error ? (error as { errcode?: unknown }).errcode : undefined;
  return typeof code === "number" ? code & 0xff : undefined;
}

/** Another process has the lock: the shortest of waits may help. */
export function isBusy(error: unknown): boolean {
  const code = codeOf(error instanceof SluiceError ? error.cause : error);
  return code !== undefined && BUSY.has(code);
}

/**
 * The meaning of an error of SQLite: BROKER_UNAVAILABLE when trying again makes sense, QUEUE_FILE_CORRUPT or QUEUE_FILE_FOREIGN
 * when a person must examine the file, QUEUE_FILE_ERROR for a single statement that cannot run.
 */
export function sqliteError(path: string, error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  const code = codeOf(error);
  const passing = code === undefined ? undefined : PASSING[code];
  const options = { cause: error };
  if (passing !== undefined)
    return new SluiceError("BROKER_UNAVAILABLE", `queue file ${path}: ${passing} (${messageOf(error)})`, options);
  if (code === CORRUPT)
    return new SluiceError(
      "QUEUE_FILE_CORRUPT",
      `queue file ${path} is damaged (${messageOf(error)}): recover the data with "sqlite3 FILE .recover", then move the file away`,
      options,
    );
  if (code === NOT_A_DATABASE)
    return new SluiceError(
      "QUEUE_FILE_FOREIGN",
      `queue file ${path} is not an SQLite database, and stays unchanged`,
      options,
    );
  return new SluiceError("QUEUE_FILE_ERROR", `queue file ${path}: ${messageOf(error)}`, options);
}
