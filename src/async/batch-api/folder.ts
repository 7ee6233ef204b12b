import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { isBusy } from "../brokers/sqlite/queue-file.ts";

/** The end of the name of an upload that is not complete. */
const PART = ".part";
/** The end of the name of a copy. */
const COPY = ".copy";

/** The folder of `--batch`: a database, and the content of each file under its id. */
export class BatchFolder {
  readonly path: string;
  readonly database: string;
  readonly #files: string;

  /** Makes the folders. @throws SluiceError BATCH_STORE */
  constructor(path: string) {
    this.path = path;
    this.database = join(path, "batches.db");
    this.#files = join(path, "files");
    try {
      mkdirSync(this.#files, { recursive: true, mode: 0o700 });
    } catch (cause) {
      throw new SluiceError("BATCH_STORE", `the folder for batches ${path} cannot be created: ${messageOf(cause)}`, {
        cause,
      });
    }
  }

  /** The place of the content of a file. */
  content(id: string): string {
    return join(this.#files, id);
  }

  /** The place of a copy of a content that is kept elsewhere. */
  copy(id: string): string {
    return join(this.#files, id + COPY);
  }

  /** The place of an upload that is not complete. */
  upload(id: string): string {
    return join(this.#files, id + PART);
  }

  /** Makes a complete upload, which is on the disk, the content of its file. */
  complete(id: string): void {
    renameSync(this.upload(id), this.content(id));
    this.sync();
  }

  /** Bytes of the content; 0 where there is none. */
  size(id: string): number {
    return statSync(this.content(id), { throwIfNoEntry: false })?.size ?? 0;
  }

  remove(id: string): void {
    for (const path of [this.content(id), this.copy(id), this.upload(id)]) rmSync(path, { force: true });
  }

  /** Syncs the names of the files to the disk. */
  sync(): void {
    const folder = openSync(this.#files, "r");
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  }

  /** Removes what earlier processes left: uploads that broke off, and content that no file has. */
  sweep(isKnown: (id: string) => boolean): void {
    for (const name of readdirSync(this.#files)) if (!isKnown(name)) rmSync(join(this.#files, name), { force: true });
  }

  /**
   * Keeps other processes off the folder until the lock is released, or the process ends.
   * @throws SluiceError BATCH_SERVED, BATCH_STORE
   */
  lock(): { release(): void } {
    const path = join(this.path, "lock");
    let db: DatabaseSync | undefined;
    try {
      db = new DatabaseSync(path, { timeout: 0 });
      db.exec(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE; PRAGMA user_version = 1; COMMIT",
      );
    } catch (cause) {
      db?.close();
      if (isBusy(cause))
        throw new SluiceError("BATCH_SERVED", `another process already serves the batches in ${this.path}`, { cause });
      throw new SluiceError("BATCH_STORE", `${path} cannot be used: ${messageOf(cause)}`, { cause });
    }
    const open = db;
    return { release: () => open.close() };
  }
}
