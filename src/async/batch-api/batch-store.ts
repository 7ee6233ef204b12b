import { BatchTable } from "./batch-table.ts";
import { BatchDatabase } from "./database.ts";
import { type FileContents, FolderContents } from "./file-contents.ts";
import { FileTable } from "./file-table.ts";
import type { BatchFolder } from "./folder.ts";

/** The files and batches of a folder. Each thread opens its own; SQLite keeps them apart. */
export class BatchStore {
  readonly folder: BatchFolder;
  readonly contents: FileContents;
  readonly files: FileTable;
  readonly batches: BatchTable;
  readonly #db: BatchDatabase;

  /** @throws SluiceError BATCH_STORE */
  constructor(folder: BatchFolder) {
    this.folder = folder;
    this.contents = new FolderContents(folder);
    this.#db = new BatchDatabase(folder.database);
    this.files = new FileTable(this.#db, folder);
    this.batches = new BatchTable(this.#db);
  }

  /** Removes what earlier processes left beside the files. Only the process with the lock may. */
  sweep(): void {
    const written = new Set(
      this.batches.open().flatMap(({ id }) => {
        const batch = this.batches.any(id)!;
        return [batch.outputFileId, batch.errorFileId];
      }),
    );
    this.folder.sweep((id) => written.has(id) || this.files.has(id));
  }

  /** Keeps the state of the gate for readers in other threads. @throws SluiceError BATCH_STORE */
  keepGate(gate: GateState): void {
    const sql =
      "INSERT INTO state (name, value) VALUES ('gate', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    this.#db.write(() => this.#db.run(sql, JSON.stringify(gate)), "later");
  }

  /** Undefined: no process has told it yet. */
  gate(): GateState | undefined {
    const row = this.#db.get<{ value: string }>("SELECT value FROM state WHERE name = 'gate'");
    return row && (JSON.parse(row.value) as GateState);
  }

  close(): void {
    this.#db.close();
  }
}

/** Whether lines may go to the model servers now, for people. */
export interface GateState {
  readonly state: "unknown" | "unreadable" | "latched" | "closed" | "open" | "none";
  /** In one sentence. */
  readonly because: string;
  /** The free share, 0..1; null = not known. */
  readonly budget: number | null;
  /** The share that stays free; null without a gate. */
  readonly baseline: number | null;
  /** Lines at the model servers now. */
  readonly running: number;
  readonly workers: number;
}
