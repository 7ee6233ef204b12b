import type { BatchDatabase } from "./database.ts";

/** Objects that are looked at together. */
const SOME = 100;

// Triggers keep the tables in the transactions that add and remove files, wherever these are. Each file has a row; `moved` says
// whether its object is whole. A row of `s3_waste` is an object that no file has, whether or not it was ever written.
const TABLES = `
CREATE TABLE IF NOT EXISTS s3_files (id TEXT PRIMARY KEY, moved INTEGER NOT NULL, due REAL NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS s3_files_due ON s3_files (due) WHERE moved = 0;
CREATE TABLE IF NOT EXISTS s3_waste (id TEXT PRIMARY KEY, due REAL NOT NULL) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS s3_files_added AFTER INSERT ON files BEGIN
  INSERT OR IGNORE INTO s3_files VALUES (new.id, 0, 0);
END;
CREATE TRIGGER IF NOT EXISTS s3_files_removed AFTER DELETE ON files BEGIN
  DELETE FROM s3_files WHERE id = old.id;
  INSERT OR IGNORE INTO s3_waste VALUES (old.id, 0);
END;
INSERT OR IGNORE INTO s3_files SELECT id, 0, 0 FROM files;
`;

/** Which files are in the bucket, which are to go there, and which objects are to be removed. Times are Unix seconds. */
export class S3Files {
  readonly #db: BatchDatabase;

  /** @throws SluiceError BATCH_STORE */
  constructor(db: BatchDatabase) {
    this.#db = db;
    db.define(TABLES);
  }

  /** A file that is not in the bucket yet; undefined = none that is due. */
  unmoved(now: number): string | undefined {
    const sql = "SELECT id FROM s3_files WHERE moved = 0 AND due <= ? ORDER BY due LIMIT 1";
    return this.#db.get<{ id: string }>(sql, now)?.id;
  }

  /** Objects that no file has and that are due. */
  waste(now: number): readonly string[] {
    const sql = "SELECT id FROM s3_waste WHERE due <= ? LIMIT ?";
    return this.#db.all<{ id: string }>(sql, now, SOME).map(({ id }) => id);
  }

  /** Notes that the object of a file is whole. When the file is gone meanwhile, the object is among the waste already. @throws SluiceError BATCH_STORE */
  moved(id: string): void {
    this.#db.write(() => this.#db.run("UPDATE s3_files SET moved = 1 WHERE id = ?", id));
  }

  /** Puts a step off. @throws SluiceError BATCH_STORE */
  later(id: string, due: number): void {
    this.#db.write(() => {
      this.#db.run("UPDATE s3_files SET due = ? WHERE id = ?", due, id);
      this.#db.run("UPDATE s3_waste SET due = ? WHERE id = ?", due, id);
    });
  }

  /** Notes that an object is gone. @throws SluiceError BATCH_STORE */
  removed(id: string): void {
    this.#db.write(() => this.#db.run("DELETE FROM s3_waste WHERE id = ?", id));
  }

  /** Whether the object of a file is whole. */
  isMoved(id: string): boolean {
    return this.#db.get("SELECT 1 FROM s3_files WHERE id = ? AND moved = 1", id) !== undefined;
  }

  /** Files that are to go to the bucket. */
  waiting(): number {
    return this.#db.get<{ n: number }>("SELECT count(*) AS n FROM s3_files WHERE moved = 0")!.n;
  }
}
