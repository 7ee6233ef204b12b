import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { BatchTable } from "./batch-table.ts";
import { BatchDatabase } from "./database.ts";
import { type FileContents, FolderContents } from "./file-contents.ts";
import { FileTable } from "./file-table.ts";
import type { BatchFolder } from "./folder.ts";
import { S3Files } from "./s3-files.ts";
import { WebhookEvents } from "./webhook-events.ts";

/** What a store is besides the tables. */
export interface BatchStoreOptions {
  /** Whether the ends of batches are events of a webhook; default false. */
  readonly notifies?: boolean;
  /** Default: none. */
  readonly log?: Logger;
  /** Default: contents stay in the folder. */
  readonly contents?: FileContents | undefined;
}

/** The files and batches of a folder. Each thread opens its own; SQLite keeps them apart. */
export class BatchStore {
  readonly folder: BatchFolder;
  readonly contents: FileContents;
  readonly files: FileTable;
  readonly batches: BatchTable;
  readonly events: WebhookEvents;
  readonly #db: BatchDatabase;

  /** @throws SluiceError BATCH_STORE */
  constructor(
    folder: BatchFolder,
    { notifies = false, log = silentLogger, contents = new FolderContents(folder) }: BatchStoreOptions = {},
  ) {
    this.folder = folder;
    this.contents = contents;
    this.#db = new BatchDatabase(folder.database);
    this.files = new FileTable(this.#db, folder);
    this.events = new WebhookEvents(this.#db, log);
    this.batches = new BatchTable(this.#db, notifies ? this.events : undefined);
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

  /** Keeps the state of the gate for readers in other threads. @param at Unix milliseconds @throws SluiceError BATCH_STORE */
  keepGate(gate: GateState, at: number): void {
    this.#db.write(() => this.#db.keep("gate", { ...gate, at }), "later");
  }

  /** Undefined: no process has told it yet. */
  gate(): GateState | undefined {
    const told = this.#db.kept<ToldGate>("gate");
    if (told === undefined) return undefined;
    const { at: _at, ...gate } = told;
    return gate;
  }

  /** When a process told the state of the gate last, in Unix milliseconds; undefined = never. */
  gateAt(): number | undefined {
    return this.#db.kept<ToldGate>("gate")?.at;
  }

  /** The table of the files that go to a bucket. @throws SluiceError BATCH_STORE */
  bucketFiles(): S3Files {
    return new S3Files(this.#db);
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

/** As the database keeps it; earlier versions kept no time. */
type ToldGate = GateState & { readonly at?: number };
