import type { Readable } from "node:stream";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { RedisReply } from "../../../base/redis/connection.ts";
import type { AnswerJournal } from "../answer-files.ts";
import { type BatchStatus, isOpen, statusesBefore } from "../batch-status.ts";
import type { GateState } from "../batch-store.ts";
import { type BatchRefusal, LANES } from "../batch-table.ts";
import {
  type BatchChange,
  type Batches,
  type FileRefusal,
  type Held,
  type HeldBatch,
  LeaseLost,
  type PublishedFile,
} from "../batches.ts";
import type { FileObjects } from "../file-objects.ts";
import { type FileRemoval, type Listed, type ListPart, newId } from "../file-table.ts";
import type { BatchFolder } from "../folder.ts";
import type {
  BatchCounts,
  BatchLimits,
  BatchPace,
  FilePurpose,
  NewBatch,
  StoredBatch,
  StoredFile,
} from "../records.ts";
import { S3Contents } from "../s3-contents.ts";
import { eventType, logCrowdedOut, MOST_EVENTS } from "../webhook-events.ts";
import { RedisEvents } from "./redis-events.ts";
import { INTENT, RedisJournal } from "./redis-journal.ts";
import { BATCH_FIELDS, batchOf, FILE_FIELDS, fileArguments, fileOf, newBatchFields, progressFields } from "./rows.ts";
import { ADD_BATCH, ADD_FILE, INTEND, LOOK, MOVE, RELEASE, REMOVE_FILE, TIDY, TOTALS, WRITE } from "./scripts.ts";
import { type LinkOptions, StoreLink } from "./store-link.ts";

/** Milliseconds after its last look, after which others take the batches of a process over. */
const LEASE = 5000;
/** The most batches of one caller that are kept, ended ones included. */
const MOST_KEPT = 10_000;
/** Milliseconds for which the state of a gate is kept. */
const GATE = 30_000;
/** Records of one round trip. */
const PAGE = 500;
/** Milliseconds for which the parts of an ended batch stay. */
const PARTS_STAY = 3_600_000;

/** The answers of `MOVE`. */
type MoveOutcome = "moved" | "stayed" | "lost" | "late";

export interface RedisBatchesOptions extends LinkOptions {
  /** Of this process, which nobody else has. */
  readonly member: string;
  /** Locked by this process. */
  readonly spool: BatchFolder;
  readonly objects: FileObjects;
  /** Whether the ends of batches are events of a webhook. */
  readonly notifies: boolean;
  /** The most events that wait; default 100,000. */
  readonly mostEvents?: number;
}

/** Files and batches in a Redis or Valkey, with their contents in a bucket or in a folder that all processes share. */
export class RedisBatches implements Batches {
  readonly lease = LEASE;
  readonly spool: BatchFolder;
  readonly events: RedisEvents;
  readonly #options: RedisBatchesOptions;
  readonly #link: StoreLink;
  readonly #contents: S3Contents;
  /** The batches that read each input on this machine. */
  readonly #readers = new Map<string, Set<string>>();

  /** @throws SluiceError REDIS_URL_INVALID */
  constructor(options: RedisBatchesOptions) {
    this.#options = options;
    this.spool = options.spool;
    this.#link = new StoreLink(options);
    this.events = new RedisEvents(this.#link);
    this.#contents = new S3Contents(options.spool, options.objects);
  }

  /** Waits for the store at a start. @param limit milliseconds @throws SluiceError BROKER_UNAVAILABLE */
  whenReady(limit: number): Promise<void> {
    return this.#link.whenReady(limit);
  }

  async addFile(file: StoredFile, { callerFiles, callerBytes }: BatchLimits): Promise<FileRefusal | undefined> {
    await this.#put(file.id, this.spool.upload(file.id));
    const outcome = await this.#link.run(ADD_FILE, ...fileArguments(file), callerFiles, callerBytes);
    this.spool.remove(file.id);
    if (outcome === "added") return undefined;
    if (outcome === "late") throw late(file.id);
    return outcome as FileRefusal;
  }

  async file(owner: string, id: string): Promise<StoredFile | undefined> {
    const [file] = await this.#files([id]);
    return file?.owner === owner ? file : undefined;
  }

  async usage(owner: string): Promise<{ readonly bytes: number; readonly files: number }> {
    const [bytes, files] = await Promise.all([
      this.#link.send("HGET", this.#link.key("bytes"), owner),
      this.#link.send("ZCARD", this.#link.key("files", owner)),
    ]);
    return { bytes: Number(bytes ?? 0), files: Number(files) };
  }

  async listFiles(owner: string, part: ListPart, purpose?: FilePurpose): Promise<Listed<StoredFile> | undefined> {
    const ids = await this.#listed(this.#link.key("files", owner), part);
    if (ids === undefined) return undefined;
    const entries: StoredFile[] = [];
    for (let at = 0; at < ids.length && entries.length <= part.limit; at += PAGE)
      for (const file of await this.#files(ids.slice(at, at + PAGE)))
        if (file !== undefined && (purpose === undefined || file.purpose === purpose)) entries.push(file);
    return { entries: entries.slice(0, part.limit), hasMore: entries.length > part.limit };
  }

  async removeFile(owner: string, id: string): Promise<FileRemoval> {
    return (await this.#link.run(REMOVE_FILE, id, owner)) as FileRemoval;
  }

  readFile({ id, bytes }: StoredFile): Promise<Readable> {
    return this.#contents.read(id, bytes);
  }

  async add(batch: NewBatch, limits: BatchLimits, now: number): Promise<StoredBatch | BatchRefusal> {
    const id = newId("batch_");
    const outcome = await this.#link.run(
      ADD_BATCH,
      ...[id, batch.caller.id, limits.callerBatches, limits.allBatches, MOST_KEPT, LANES, batch.inputFileId],
      ...[now, now + batch.windowSeconds, ...newBatchFields(batch, newId("file-"), newId("file-"))],
    );
    return outcome === "added" ? (await this.any(id))! : (outcome as BatchRefusal);
  }

  async find(owner: string, id: string): Promise<StoredBatch | undefined> {
    const batch = await this.any(id);
    return batch?.owner === owner ? batch : undefined;
  }

  async any(id: string): Promise<StoredBatch | undefined> {
    return (await this.#batches([id]))[0];
  }

  async list(owner: string, part: ListPart): Promise<Listed<StoredBatch> | undefined> {
    const ids = await this.#listed(this.#link.key("batches", owner), part, part.limit + 1);
    if (ids === undefined) return undefined;
    return { entries: await this.#batches(ids.slice(0, part.limit)), hasMore: ids.length > part.limit };
  }

  async latest(limit: number): Promise<readonly StoredBatch[]> {
    const newest = (name: string): Promise<string[]> =>
      this.#link.send("ZRANGE", this.#link.key(name), 0, limit - 1, "REV") as Promise<string[]>;
    const [open, all] = await Promise.all([newest("open"), newest("all")]);
    return this.#batches([...new Set([...open, ...all])].slice(0, limit));
  }

  async totals(): Promise<{ readonly open: number; readonly left: number; readonly rate: number }> {
    const [open, left, rate] = ((await this.#link.run(TOTALS)) as (number | string)[]).map(Number);
    return { open: open!, left: left!, rate: rate! };
  }

  async cancel(id: string, now: number): Promise<boolean> {
    if ((await this.#move(id, "", 0, "cancelling", now, {})) === "moved") return true;
    return (await this.#link.send("HGET", this.#link.key("batch", id), "status")) === "cancelling";
  }

  async gate(): Promise<GateState | undefined> {
    const text = await this.#link.send("GET", this.#link.key("gate", this.#options.member));
    return text === null ? undefined : (JSON.parse(text as string) as GateState);
  }

  async keepGate(gate: GateState): Promise<void> {
    const key = this.#link.key("gate", this.#options.member);
    await this.#link.send("SET", key, JSON.stringify(gate), "PX", GATE);
  }

  async look(takesMore: boolean): Promise<readonly HeldBatch[]> {
    // After an outage the leases of all have run out: each process gets the time to renew its own.
    const inherits = this.#link.age >= LEASE;
    const { member } = this.#options;
    const held = (await this.#link.run(LOOK, member, LEASE, Number(takesMore), Number(inherits))) as (
      | string
      | number
    )[];
    return Array.from({ length: held.length / 4 }, (_, at) => {
      const [id, owner, status, epoch] = held.slice(4 * at) as [string, string, BatchStatus, string | number];
      return { id, owner, status, epoch: Number(epoch) };
    });
  }

  async release(): Promise<void> {
    await this.#link.run(RELEASE, this.#options.member);
  }

  async move({ id, epoch }: Held, to: BatchStatus, now: number, change: BatchChange = {}): Promise<boolean> {
    const outcome = await this.#move(id, this.#options.member, epoch, to, now, change);
    if (outcome === "lost") throw new LeaseLost(id);
    if (outcome === "late") throw late(id);
    return outcome === "moved";
  }

  note(held: Held, counts: BatchCounts, pace: BatchPace): Promise<void> {
    return this.#write(held, progressFields(counts, pace));
  }

  advance(held: Held, line: number): Promise<void> {
    return this.#write(held, ["submitted", String(line)]);
  }

  input({ id, inputFileId }: StoredBatch, signal: AbortSignal): Promise<string> {
    const readers = this.#readers.get(inputFileId) ?? new Set();
    this.#readers.set(inputFileId, readers.add(id));
    return this.#contents.local(inputFileId, signal);
  }

  answerPaths({ id }: StoredBatch): { readonly outputs: string; readonly errors: string } {
    return { outputs: this.spool.content(`${id}.output`), errors: this.spool.content(`${id}.errors`) };
  }

  journal(held: Held): AnswerJournal {
    return new RedisJournal(held, { ...this.#options, link: this.#link });
  }

  async publish(batch: StoredBatch): Promise<{ readonly output: PublishedFile; readonly errors: PublishedFile }> {
    const of = async (name: "output" | "errors"): Promise<PublishedFile> => {
      const bytes = this.spool.size(`${batch.id}.${name}`);
      // A new name: a process that has lost the batch cannot change what its successor publishes.
      const id = newId("file-");
      if (bytes > 0) await this.#put(id, this.spool.content(`${batch.id}.${name}`));
      return { id, bytes };
    };
    return { output: await of("output"), errors: await of("errors") };
  }

  async leave({ id, inputFileId }: StoredBatch): Promise<void> {
    for (const name of ["output", "errors"]) this.spool.remove(`${id}.${name}`);
    const readers = this.#readers.get(inputFileId);
    readers?.delete(id);
    if (readers === undefined || readers.size > 0) return;
    this.#readers.delete(inputFileId);
    this.#contents.free(inputFileId);
  }

  async tidy(now: number, keep: number): Promise<void> {
    for (;;) {
      const [count, ...objects] = (await this.#link.run(TIDY, now, now - keep)) as [number, ...string[]];
      for (const object of objects) {
        try {
          await this.#options.objects.remove(object);
          await this.#link.send("ZREM", this.#link.key("waste"), object);
        } catch (error) {
          this.#options.log.warn({ object, error: messageOf(error) }, "an old batch object cannot be removed now");
        }
      }
      if (count === 0 && objects.length === 0) return;
    }
  }

  close(): void {
    this.#link.close();
  }

  /** Makes an object of a file, once the store has a note of it. */
  async #put(id: string, path: string): Promise<void> {
    await this.#link.run(INTEND, id, INTENT);
    await this.#options.objects.put(id, path);
  }

  async #move(
    id: string,
    member: string,
    epoch: number,
    to: BatchStatus,
    now: number,
    change: BatchChange,
  ): Promise<MoveOutcome> {
    const { problems, total, counts, hasOutput, hasErrors, outputFileId, errorFileId, files = [] } = change;
    const type = this.#options.notifies && !isOpen(to) ? eventType(to) : undefined;
    const event = type === undefined ? "" : newId("evt_");
    const fields: readonly [string, string | undefined][] = [
      ["problems", problems && JSON.stringify(problems)],
      ["total", total?.toString()],
      ["hasOutput", hasOutput === undefined ? undefined : String(Number(hasOutput))],
      ["hasErrors", hasErrors === undefined ? undefined : String(Number(hasErrors))],
      ["output", outputFileId],
      ["errors", errorFileId],
    ];
    const outcome = await this.#link.run(
      MOVE,
      ...[id, member, epoch, to, Number(isOpen(to)), now, `,${statusesBefore(to).join(",")},`, PARTS_STAY],
      ...[event, type ?? "", this.#options.mostEvents ?? MOST_EVENTS, files.length, ...files.flatMap(fileArguments)],
      ...fields.flatMap(([name, value]) => (value === undefined ? [] : [name, value])),
      ...(counts === undefined ? [] : progressFields(counts, { underWay: 0, rate: 0, problem: "" })),
    );
    if (!Array.isArray(outcome)) return outcome as MoveOutcome;
    const [moved, crowded, of] = outcome as [MoveOutcome, string, string];
    logCrowdedOut(this.#options.log, crowded, of);
    return moved;
  }

  async #write({ id, epoch }: Held, fields: readonly string[]): Promise<void> {
    if ((await this.#link.run(WRITE, id, this.#options.member, epoch, ...fields)) !== 1) throw new LeaseLost(id);
  }

  async #files(ids: readonly string[]): Promise<(StoredFile | undefined)[]> {
    return (await this.#rows("file", ids, FILE_FIELDS)).map(fileOf);
  }

  /** Those of the batches that are there. */
  async #batches(ids: readonly string[]): Promise<StoredBatch[]> {
    return (await this.#rows("batch", ids, BATCH_FIELDS)).map(batchOf).filter((batch) => batch !== undefined);
  }

  #rows(kind: string, ids: readonly string[], fields: readonly string[]): Promise<RedisReply[]> {
    return Promise.all(ids.map((id) => this.#link.send("HMGET", this.#link.key(kind, id), ...fields)));
  }

  /** Ids of a list in their order. @returns undefined where `after` is not in the list */
  async #listed(key: string, { after, order }: ListPart, most?: number): Promise<string[] | undefined> {
    const seq = after === undefined ? undefined : await this.#link.send("ZSCORE", key, after);
    if (seq === null) return undefined;
    const from = seq === undefined ? (order === "asc" ? "-inf" : "+inf") : `(${String(seq)}`;
    const range = order === "asc" ? [from, "+inf", "BYSCORE"] : [from, "-inf", "BYSCORE", "REV"];
    const limit = most === undefined ? [] : ["LIMIT", 0, most];
    return (await this.#link.send("ZRANGE", key, ...range, ...limit)) as string[];
  }
}

function late(id: string): SluiceError {
  return new SluiceError("BATCH_STORE", `the upload of ${id} took too long, so Sluice dropped the content`);
}
