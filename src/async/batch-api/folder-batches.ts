import type { Readable } from "node:stream";
import type { AnswerJournal } from "./answer-files.ts";
import type { BatchStatus } from "./batch-status.ts";
import type { BatchStore, GateState } from "./batch-store.ts";
import type { BatchRefusal } from "./batch-table.ts";
import type { BatchChange, Batches, Events, FileRefusal, Held, HeldBatch, PublishedFile } from "./batches.ts";
import type { FileRemoval, Listed, ListPart } from "./file-table.ts";
import type { BatchFolder } from "./folder.ts";
import type { BatchCounts, BatchLimits, BatchPace, FilePurpose, NewBatch, StoredBatch, StoredFile } from "./records.ts";
import type { WebhookEvents } from "./webhook-events.ts";

/** The batches of a folder, which one process has locked: it holds all of them until it ends. */
export class FolderBatches implements Batches {
  readonly lease = Number.POSITIVE_INFINITY;
  readonly spool: BatchFolder;
  readonly events: Events;
  readonly #store: BatchStore;

  /** @param store closed by `close` */
  constructor(store: BatchStore) {
    this.#store = store;
    this.spool = store.folder;
    this.events = eventsOf(store.events);
  }

  async addFile(file: StoredFile, { callerFiles, callerBytes }: BatchLimits): Promise<FileRefusal | undefined> {
    this.spool.complete(file.id);
    // Only this process adds files, and no other request comes between these two lines.
    const { bytes, files } = this.#store.files.usage(file.owner);
    if (files < callerFiles && bytes + file.bytes <= callerBytes) {
      this.#store.files.add(file);
      return undefined;
    }
    this.spool.remove(file.id);
    return files < callerFiles ? "too-many-bytes" : "too-many-files";
  }

  async file(owner: string, id: string): Promise<StoredFile | undefined> {
    return this.#store.files.find(owner, id);
  }

  async usage(owner: string): Promise<{ readonly bytes: number; readonly files: number }> {
    return this.#store.files.usage(owner);
  }

  async listFiles(owner: string, part: ListPart, purpose?: FilePurpose): Promise<Listed<StoredFile> | undefined> {
    return this.#store.files.list(owner, part, purpose);
  }

  async removeFile(owner: string, id: string): Promise<FileRemoval> {
    return this.#store.files.remove(owner, id);
  }

  readFile({ id, bytes }: StoredFile): Promise<Readable> {
    return this.#store.contents.read(id, bytes);
  }

  async add(batch: NewBatch, limits: BatchLimits, now: number): Promise<StoredBatch | BatchRefusal> {
    return this.#store.batches.add(batch, limits, now);
  }

  async find(owner: string, id: string): Promise<StoredBatch | undefined> {
    return this.#store.batches.find(owner, id);
  }

  async any(id: string): Promise<StoredBatch | undefined> {
    return this.#store.batches.any(id);
  }

  async list(owner: string, part: ListPart): Promise<Listed<StoredBatch> | undefined> {
    return this.#store.batches.list(owner, part);
  }

  async latest(limit: number): Promise<readonly StoredBatch[]> {
    return this.#store.batches.latest(limit);
  }

  async totals(): Promise<{ readonly open: number; readonly left: number; readonly rate: number }> {
    return this.#store.batches.totals();
  }

  async cancel(id: string, now: number): Promise<boolean> {
    return this.#store.batches.cancel(id, now);
  }

  async gate(): Promise<GateState | undefined> {
    return this.#store.gate();
  }

  async keepGate(gate: GateState, at: number): Promise<void> {
    this.#store.keepGate(gate, at);
  }

  async look(): Promise<readonly HeldBatch[]> {
    return this.#store.batches.open().map((batch) => ({ ...batch, epoch: 0 }));
  }

  async release(): Promise<void> {}

  async move({ id }: Held, to: BatchStatus, now: number, change: BatchChange = {}): Promise<boolean> {
    const { files = [] } = change;
    return this.#store.batches.move(id, to, now, change, () => {
      for (const file of files) this.#store.files.insert(file);
    });
  }

  async note({ id }: Held, counts: BatchCounts, pace: BatchPace): Promise<void> {
    this.#store.batches.note(id, counts, pace);
  }

  async advance({ id }: Held, line: number): Promise<void> {
    this.#store.batches.advance(id, line);
  }

  input({ inputFileId }: StoredBatch, signal: AbortSignal): Promise<string> {
    return this.#store.contents.local(inputFileId, signal);
  }

  answerPaths({ outputFileId, errorFileId }: StoredBatch): { readonly outputs: string; readonly errors: string } {
    return { outputs: this.spool.content(outputFileId), errors: this.spool.content(errorFileId) };
  }

  journal(): AnswerJournal | undefined {
    return undefined;
  }

  async publish(batch: StoredBatch): Promise<{ readonly output: PublishedFile; readonly errors: PublishedFile }> {
    const [output, errors] = [batch.outputFileId, batch.errorFileId].map((id) => ({ id, bytes: this.spool.size(id) }));
    for (const { id, bytes } of [output!, errors!]) if (bytes === 0) this.spool.remove(id);
    return { output: output!, errors: errors! };
  }

  async leave({ inputFileId }: StoredBatch): Promise<void> {
    if (!this.#store.files.isInput(inputFileId)) this.#store.contents.free(inputFileId);
  }

  async tidy(now: number, keep: number): Promise<void> {
    while (this.#store.files.expire(now) > 0);
    while (this.#store.batches.forget(now - keep) > 0);
  }

  close(): void {
    this.#store.close();
  }
}

function eventsOf(events: WebhookEvents): Events {
  return {
    due: async (now, limit) => events.due(now, limit),
    begin: async (event, due) => {
      events.begin(event, due);
      return true;
    },
    failed: async (event, due) => events.failed(event, due),
    cutOff: async (event, due) => events.cutOff(event, due),
    end: async (event, outcome, failedAttempts) => events.end(event, outcome, failedAttempts),
    figures: async () => events.figures(),
  };
}
