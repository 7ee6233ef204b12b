import { randomBytes } from "node:crypto";
import type { BatchDatabase } from "./database.ts";
import type { BatchFolder } from "./folder.ts";
import type { FilePurpose, StoredFile } from "./records.ts";

interface FileRow {
  readonly id: string;
  readonly owner: string;
  readonly purpose: FilePurpose;
  readonly filename: string;
  readonly bytes: number;
  readonly created: number;
  readonly expires: number;
}

/** Which part of a list, by OpenAI's cursors. */
export interface ListPart {
  /** The id of the last entry that the caller has; undefined = none. */
  readonly after: string | undefined;
  readonly limit: number;
  readonly order: "asc" | "desc";
}

/** A part of a list. */
export interface Listed<T> {
  readonly entries: readonly T[];
  readonly hasMore: boolean;
}

/** The outcome of a request to remove a file; `in-use` = an open batch reads it. */
export type FileRemoval = "removed" | "unknown" | "in-use";

const COLUMNS = "id, owner, purpose, filename, bytes, created, expires";

/** A new id that nobody can guess. */
export function newId(kind: "file-" | "batch_" | "evt_"): string {
  return kind + randomBytes(16).toString("hex");
}

/** The files of all callers. A caller sees its own alone. */
export class FileTable {
  readonly #db: BatchDatabase;
  readonly #folder: BatchFolder;

  constructor(db: BatchDatabase, folder: BatchFolder) {
    this.#db = db;
    this.#folder = folder;
  }

  /** Adds a file whose content is on the disk. @throws SluiceError BATCH_STORE */
  add(file: StoredFile): void {
    this.#db.write(() => this.insert(file));
  }

  /** As `add`, within a transaction. */
  insert({ id, owner, purpose, filename, bytes, createdAt, expiresAt }: StoredFile): void {
    const sql = `INSERT INTO files (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)`;
    this.#db.run(sql, id, owner, purpose, filename, bytes, createdAt, expiresAt);
  }

  /** The file of a caller; undefined also for files of others. */
  find(owner: string, id: string): StoredFile | undefined {
    const sql = `SELECT ${COLUMNS} FROM files WHERE id = ? AND owner = ?`;
    const row = this.#db.get<FileRow>(sql, id, owner);
    return row && fileOf(row);
  }

  /** The bytes and the number of the files of a caller. */
  usage(owner: string): { readonly bytes: number; readonly files: number } {
    const sql = "SELECT coalesce(sum(bytes), 0) AS bytes, count(*) AS files FROM files WHERE owner = ?";
    return this.#db.get<{ bytes: number; files: number }>(sql, owner)!;
  }

  /** @returns undefined when the caller has no file `after` */
  list(owner: string, { after, limit, order }: ListPart, purpose?: FilePurpose): Listed<StoredFile> | undefined {
    const from = cursor(this.#db, "files", owner, after, order);
    if (from === undefined) return undefined;
    const [sign, way] = order === "asc" ? [">", "ASC"] : ["<", "DESC"];
    const sql = `SELECT ${COLUMNS} FROM files WHERE owner = ? AND seq ${sign} ? AND (? = '' OR purpose = ?) ORDER BY seq ${way} LIMIT ?`;
    const rows = this.#db.all<FileRow>(sql, owner, from, purpose ?? "", purpose ?? "", limit + 1);
    return { entries: rows.slice(0, limit).map(fileOf), hasMore: rows.length > limit };
  }

  /** Removes a file of a caller. @throws SluiceError BATCH_STORE */
  remove(owner: string, id: string): FileRemoval {
    const removal = this.#db.write((): FileRemoval => {
      if (this.find(owner, id) === undefined) return "unknown";
      if (this.isInput(id)) return "in-use";
      this.#db.run("DELETE FROM files WHERE id = ?", id);
      return "removed";
    });
    // A crash before this line leaves content without a file, which the next start removes.
    if (removal === "removed") this.#folder.remove(id);
    return removal;
  }

  /** Removes files whose time is over, but no input of an open batch. @param now Unix seconds @returns how many, at most 100 */
  expire(now: number): number {
    const ids = this.#db.write(() => {
      const sql = `DELETE FROM files WHERE seq IN (
        SELECT seq FROM files WHERE expires <= ? AND id NOT IN (SELECT input FROM batches WHERE open = 1) LIMIT 100)
        RETURNING id`;
      return this.#db.all<{ id: string }>(sql, now).map(({ id }) => id);
    });
    for (const id of ids) this.#folder.remove(id);
    return ids.length;
  }

  /** Whether an open batch reads a file. */
  isInput(id: string): boolean {
    return this.#db.get("SELECT 1 FROM batches WHERE input = ? AND open = 1 LIMIT 1", id) !== undefined;
  }

  /** Whether some caller has a file with this id. */
  has(id: string): boolean {
    return this.#db.get("SELECT 1 FROM files WHERE id = ?", id) !== undefined;
  }
}

/** The sequence number after which a part of a list begins; undefined when the caller has no such entry. */
export function cursor(
  db: BatchDatabase,
  table: "files" | "batches",
  owner: string,
  after: string | undefined,
  order: ListPart["order"],
): number | undefined {
  if (after === undefined) return order === "asc" ? 0 : Number.MAX_SAFE_INTEGER;
  return db.get<{ seq: number }>(`SELECT seq FROM ${table} WHERE id = ? AND owner = ?`, after, owner)?.seq;
}

function fileOf({ created, expires, ...same }: FileRow): StoredFile {
  return { ...same, createdAt: created, expiresAt: expires };
}
