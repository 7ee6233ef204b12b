import type { Readable } from "node:stream";
import type { AnswerJournal } from "./answer-files.ts";
import type { BatchStatus } from "./batch-status.ts";
import type { GateState } from "./batch-store.ts";
import type { BatchRefusal, StatusChange } from "./batch-table.ts";
import type { FileRemoval, Listed, ListPart } from "./file-table.ts";
import type { BatchFolder } from "./folder.ts";
import type { BatchCounts, BatchLimits, BatchPace, FilePurpose, NewBatch, StoredBatch, StoredFile } from "./records.ts";
import type { WebhookEvent, WebhookFigures } from "./webhook-events.ts";

/** Why an upload is not kept: the caller has too many files, or too many bytes in them. */
export type FileRefusal = "too-many-files" | "too-many-bytes";

/** The right of this process to work on a batch: nobody else has it until the lease of the process ends. */
export interface Held {
  readonly id: string;
  /** Rises with each process that takes the batch over, so that a former one cannot write any more. */
  readonly epoch: number;
}

/** A batch that this process is to work on. */
export interface HeldBatch extends Held {
  readonly owner: string;
  readonly status: BatchStatus;
}

/** Another process works on the batch now. Whoever gets this error stops, and changes nothing. */
export class LeaseLost extends Error {
  constructor(id: string) {
    super(`another process works on ${id} now`);
  }
}

/** What changes with a status of a batch. */
export interface BatchChange extends StatusChange {
  /** The files with answers and errors that the caller can read from now on; only at the end of the batch. */
  readonly files?: readonly StoredFile[];
}

/** A file of an ended batch as its content is kept; 0 bytes = there is no such file. */
export interface PublishedFile {
  readonly id: string;
  readonly bytes: number;
}

/**
 * All files and batches, wherever they are kept. Times are Unix seconds. Each method rejects with an SluiceError: BATCH_STORE of a
 * folder, BROKER_UNAVAILABLE of a store on the network, BATCH_BUCKET of a bucket.
 */
export interface Batches extends CallersFiles, CallersBatches, BatchWork {
  /** The place for uploads under way and for what a batch needs on this machine. */
  readonly spool: BatchFolder;
  readonly events: Events;
  /** The state of the gate of this process; undefined = it has told none. */
  gate(): Promise<GateState | undefined>;
  /** @param at Unix milliseconds */
  keepGate(gate: GateState, at: number): Promise<void>;
  close(): void;
}

/** Files, as their callers see them. */
export interface CallersFiles {
  /**
   * Keeps a file whose content is on the disk, as the upload of its id in the spool. When this resolves with undefined, neither the
   * end of this process nor, with a store on the network, that of this machine loses it.
   */
  addFile(file: StoredFile, limits: BatchLimits): Promise<FileRefusal | undefined>;
  /** The file of a caller; undefined also for files of others. */
  file(owner: string, id: string): Promise<StoredFile | undefined>;
  usage(owner: string): Promise<{ readonly bytes: number; readonly files: number }>;
  /** @returns undefined when the caller has no file `after` */
  listFiles(owner: string, part: ListPart, purpose?: FilePurpose): Promise<Listed<StoredFile> | undefined>;
  removeFile(owner: string, id: string): Promise<FileRemoval>;
  /** A stream of the content. */
  readFile(file: StoredFile): Promise<Readable>;
}

/** Batches, as their callers and operators see them. */
export interface CallersBatches {
  add(batch: NewBatch, limits: BatchLimits, now: number): Promise<StoredBatch | BatchRefusal>;
  /** The batch of a caller; undefined also for batches of others. */
  find(owner: string, id: string): Promise<StoredBatch | undefined>;
  any(id: string): Promise<StoredBatch | undefined>;
  /** @returns undefined when the caller has no batch `after` */
  list(owner: string, part: ListPart): Promise<Listed<StoredBatch> | undefined>;
  /** Batches of all callers: open ones first, then the newest. */
  latest(limit: number): Promise<readonly StoredBatch[]>;
  /** Open batches, their lines without an answer, and the lines that get one each second. */
  totals(): Promise<{ readonly open: number; readonly left: number; readonly rate: number }>;
  /** Begins to end a batch. @returns whether it is cancelled, now or before */
  cancel(id: string, now: number): Promise<boolean>;
}

/** What a process does that works on batches. Methods with a `Held` reject with LeaseLost where it is not held any more. */
export interface BatchWork {
  /** Milliseconds for which a look holds batches; Infinity = until the process ends. */
  readonly lease: number;
  /** Renews the lease of all batches that this process holds. @param takesMore whether it takes others @returns those it holds now */
  look(takesMore: boolean): Promise<readonly HeldBatch[]>;
  /** Gives the batches back, so that others take them at once. */
  release(): Promise<void>;
  /** Moves a batch where the table of statuses allows it from the present one. @returns whether it moved */
  move(held: Held, to: BatchStatus, now: number, change?: BatchChange): Promise<boolean>;
  /** Notes how far a batch is. The note may be lost with the power of the machine. */
  note(held: Held, counts: BatchCounts, pace: BatchPace): Promise<void>;
  /** Notes that lines up to this one may soon be in the queue. */
  advance(held: Held, line: number): Promise<void>;
  /** A path on this machine with the input of a batch, which stays until `leave`. */
  input(batch: StoredBatch, signal: AbortSignal): Promise<string>;
  /** Where the answers of a batch are on this machine while it runs. */
  answerPaths(batch: StoredBatch): { readonly outputs: string; readonly errors: string };
  /** Where the answers of a batch are kept besides the files on this machine; undefined = those files are all. */
  journal(held: Held): AnswerJournal | undefined;
  /** Keeps the content of the files with answers and errors, before the batch ends. */
  publish(batch: StoredBatch): Promise<{ readonly output: PublishedFile; readonly errors: PublishedFile }>;
  /** This process does not work on the batch any more. */
  leave(batch: StoredBatch): Promise<void>;
  /** Removes files whose time is over, and batches that ended before `keep` seconds. */
  tidy(now: number, keep: number): Promise<void>;
}

/** The events that a webhook has not got yet. */
export interface Events {
  /** Events whose time for an attempt has come, the most urgent first. */
  due(now: number, limit: number): Promise<readonly WebhookEvent[]>;
  /** Notes an attempt before it begins, and when the next one is due. @returns false = another process makes it */
  begin(event: WebhookEvent, due: number): Promise<boolean>;
  failed(event: WebhookEvent, due: number): Promise<void>;
  /** Takes back an attempt that the end of the process cut off. */
  cutOff(event: WebhookEvent, due: number): Promise<void>;
  end(event: WebhookEvent, outcome: "delivered" | "givenUp", failedAttempts: number): Promise<void>;
  figures(): Promise<WebhookFigures>;
}
