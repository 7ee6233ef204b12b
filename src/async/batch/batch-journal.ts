import { rmSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";

/** The settings that a batch began with; a later run needs the same. */
export interface BatchRecord {
  /** Names the batch: 16 hex digits, in the ids of all its requests. */
  readonly batch: string;
  readonly inputSha256: string;
  /** The server or file with the queues. */
  readonly place: string;
  readonly queueName: string;
  /** No other batch uses it. */
  readonly resultQueueName: string;
}

/** `application_id` of the journals: "SLUB". */
const APPLICATION = 0x534c5542;
const BUSY: ReadonlySet<number> = new Set([5, 6]);

/**
 * The data that a batch needs, beside its answers, to go on after any kind of end. It is a SQLite file, and its lock ends with
 * the process that holds it. Lines up to `submitted` may be in the queue; later lines are not.
 */
export class BatchJournal {
  readonly path: string;
  readonly #db: DatabaseSync;
  #record: BatchRecord | undefined;
  #submitted = 0;

  /** Opens the journal, or creates an empty one. @throws SluiceError BATCH_RUNNING, BATCH_JOURNAL */
  constructor(path: string) {
    this.path = path;
    let db: DatabaseSync | undefined;
    try {
      db = new DatabaseSync(path, { timeout: 0 });
      const application = Number(db.prepare("PRAGMA application_id").get()?.["application_id"]);
      const fresh = Number(db.prepare("PRAGMA schema_version").get()?.["schema_version"]) === 0;
      if (!fresh && application !== APPLICATION) throw new Error("it is a database of another program");
      // The first write takes the lock for as long as the file is open.
      db.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL");
      db.exec(
        `BEGIN EXCLUSIVE; PRAGMA application_id = ${APPLICATION};
         CREATE TABLE IF NOT EXISTS batch (record TEXT NOT NULL, submitted INTEGER NOT NULL) STRICT; COMMIT`,
      );
      const row = db.prepare("SELECT record, submitted FROM batch").get();
      if (row !== undefined) {
        this.#record = JSON.parse(String(row["record"])) as BatchRecord;
        this.#submitted = Number(row["submitted"]);
      }
      this.#db = db;
    } catch (cause) {
      db?.close();
      throw journalError(path, cause);
    }
  }

  /** Undefined until `begin`. */
  get record(): BatchRecord | undefined {
    return this.#record;
  }

  get submitted(): number {
    return this.#submitted;
  }

  /** @throws SluiceError BATCH_JOURNAL */
  begin(record: BatchRecord): void {
    this.#write(() =>
      this.#db.prepare("INSERT INTO batch (record, submitted) VALUES (?, 0)").run(JSON.stringify(record)),
    );
    this.#record = record;
  }

  /** Records on the disk that lines up to this one may soon be in the queue. @throws SluiceError BATCH_JOURNAL */
  advance(line: number): void {
    if (line <= this.#submitted) return;
    this.#write(() => this.#db.prepare("UPDATE batch SET submitted = ?").run(line));
    this.#submitted = line;
  }

  /** Closes the journal; a journal of a batch that never began is removed. */
  close(): void {
    if (this.#record === undefined) this.remove();
    else this.#end();
  }

  /** Removes the journal: the batch is done. */
  remove(): void {
    // The file goes before the lock ends, so that no process opens a file that is about to vanish.
    if (this.#db.isOpen) rmSync(this.path, { force: true });
    this.#end();
  }

  #end(): void {
    if (!this.#db.isOpen) return;
    this.#db.close();
    // SQLite leaves this file behind, empty.
    rmSync(`${this.path}-journal`, { force: true });
  }

  #write(work: () => void): void {
    try {
      work();
    } catch (cause) {
      throw journalError(this.path, cause);
    }
  }
}

function journalError(path: string, cause: unknown): SluiceError {
  const code = (cause as { errcode?: unknown } | undefined)?.errcode;
  if (typeof code === "number" && BUSY.has(code & 0xff))
    return new SluiceError("BATCH_RUNNING", `another process works on this batch and has locked ${path}`, { cause });
  const missing = statSync(path, { throwIfNoEntry: false }) === undefined ? "; does its folder exist?" : "";
  return new SluiceError("BATCH_JOURNAL", `journal ${path} cannot be used: ${messageOf(cause)}${missing}`, { cause });
}
