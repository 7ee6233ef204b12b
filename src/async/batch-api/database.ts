import { DatabaseSync, type StatementSync } from "node:sqlite";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";

/** `application_id` of the database: "SLUA". */
const APPLICATION = 0x534c5541;
const VERSION = 1;
/** Milliseconds that a write waits for another thread of this process. */
const BUSY_TIMEOUT = 5000;

// `reached` and the other texts in JSON are read and written as a whole. `submitted` and the counts change while a batch runs.
const SCHEMA = `
CREATE TABLE files (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  purpose TEXT NOT NULL,
  filename TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  created REAL NOT NULL,
  expires REAL NOT NULL
) STRICT;
CREATE INDEX files_owner ON files (owner, seq);
CREATE INDEX files_expires ON files (expires);
CREATE TABLE batches (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  caller TEXT NOT NULL,
  status TEXT NOT NULL,
  open INTEGER NOT NULL,
  endpoint TEXT NOT NULL,
  input TEXT NOT NULL,
  output TEXT NOT NULL,
  errors TEXT NOT NULL,
  has_output INTEGER NOT NULL DEFAULT 0,
  has_errors INTEGER NOT NULL DEFAULT 0,
  window TEXT NOT NULL,
  metadata TEXT,
  output_seconds REAL,
  created REAL NOT NULL,
  expires REAL NOT NULL,
  reached TEXT NOT NULL,
  problems TEXT NOT NULL DEFAULT '[]',
  total INTEGER NOT NULL DEFAULT 0,
  submitted INTEGER NOT NULL DEFAULT 0,
  lane INTEGER NOT NULL,
  completed INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  unanswered INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  cached_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  under_way INTEGER NOT NULL DEFAULT 0,
  rate REAL NOT NULL DEFAULT 0,
  problem TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX batches_owner ON batches (owner, seq);
CREATE INDEX batches_open ON batches (seq) WHERE open = 1;
CREATE INDEX batches_input ON batches (input) WHERE open = 1;
CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
`;

/** Whether a write must be on the disk when it returns. Progress need not: the files of answers say all of it. */
type Sync = "disk" | "later";

/** A connection to the database of a folder of batches. Each thread has its own. */
export class BatchDatabase {
  readonly #path: string;
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  #sync: Sync = "disk";

  /** Opens the database, or creates it. @throws SluiceError BATCH_STORE */
  constructor(path: string) {
    this.#path = path;
    let db: DatabaseSync | undefined;
    try {
      db = new DatabaseSync(path, { timeout: BUSY_TIMEOUT });
      prepare(db);
      this.#db = db;
    } catch (cause) {
      db?.close();
      throw storeError(path, cause);
    }
  }

  /** All rows of a query. @param sql one of a fixed set of texts */
  all<T>(sql: string, ...values: (string | number | null)[]): T[] {
    return this.#guard(() => this.#statement(sql).all(...values) as unknown as T[]);
  }

  get<T>(sql: string, ...values: (string | number | null)[]): T | undefined {
    return this.#guard(() => this.#statement(sql).get(...values) as unknown as T | undefined);
  }

  /** @returns the number of changed rows; only within `write` */
  run(sql: string, ...values: (string | number | null)[]): number {
    return Number(this.#statement(sql).run(...values).changes);
  }

  /** Runs `work` in one transaction; when it throws, nothing was written. @throws SluiceError BATCH_STORE, or of `work` */
  write<T>(work: () => T, sync: Sync = "disk"): T {
    return this.#guard(() => {
      if (sync !== this.#sync) this.#db.exec(`PRAGMA synchronous = ${sync === "disk" ? "FULL" : "NORMAL"}`);
      this.#sync = sync;
      this.#db.exec("BEGIN IMMEDIATE");
      try {
        const value = work();
        this.#db.exec("COMMIT");
        return value;
      } catch (error) {
        if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
        throw error;
      }
    });
  }

  /** Keeps a value under a name, in place of an older one; only within `write`. */
  keep(name: string, value: object): void {
    const sql = "INSERT INTO state (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    this.run(sql, name, JSON.stringify(value));
  }

  /** The value under a name; undefined = none. */
  kept<T>(name: string): T | undefined {
    const row = this.get<{ value: string }>("SELECT value FROM state WHERE name = ?", name);
    return row && (JSON.parse(row.value) as T);
  }

  /** Makes tables that are not there yet. @param sql legal where they are there, too @throws SluiceError BATCH_STORE */
  define(sql: string): void {
    this.write(() => this.#db.exec(sql));
  }

  close(): void {
    this.#statements.clear();
    if (this.#db.isOpen) this.#db.close();
  }

  #statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  #guard<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      // Only errors of SQLite have this member.
      if ((error as { errcode?: unknown }).errcode === undefined) throw error;
      throw storeError(this.#path, error);
    }
  }
}

function prepare(db: DatabaseSync): void {
  const number = (pragma: string): number => Number(Object.values(db.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]);
  const isFresh = (): boolean => number("schema_version") === 0;
  if (!isFresh()) {
    if (number("application_id") !== APPLICATION) throw new Error("it is a database of another program");
    if (number("user_version") > VERSION) throw new Error("a newer version of sluice wrote this file");
  }
  // WAL only now: it would change a foreign file.
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  db.exec("BEGIN IMMEDIATE");
  if (isFresh()) db.exec(`${SCHEMA} PRAGMA application_id = ${APPLICATION}; PRAGMA user_version = ${VERSION}`);
  db.exec("COMMIT");
}

function storeError(path: string, cause: unknown): SluiceError {
  return new SluiceError("BATCH_STORE", `${path} cannot be used: ${messageOf(cause)}`, { cause });
}
