import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import type { AnswerJournal } from "../answer-files.ts";
import { type Held, LeaseLost } from "../batches.ts";
import { type FileObjects, isMissing } from "../file-objects.ts";
import type { BatchFolder } from "../folder.ts";
import { APPEND, INTEND, PART } from "./scripts.ts";
import type { StoreLink } from "./store-link.ts";

/** Bytes of answers in the store from which on they become an object: the store holds less than this of each open batch. */
const PART_BYTES = 1024 * 1024;
/** Milliseconds after which an object that nobody completed is removed: longer than the longest upload. */
export const INTENT = 24 * 3_600_000;

export interface JournalParts {
  readonly link: StoreLink;
  readonly objects: FileObjects;
  readonly spool: BatchFolder;
  readonly member: string;
  readonly log: Logger;
}

/**
 * The answers of a batch: a list in the store with the newest ones, and before them objects of 1 MiB and more, whose names are a list
 * in the store, too. An answer is in one of the two when `append` resolves. The store takes neither from a process that has lost
 * the batch.
 */
export class RedisJournal implements AnswerJournal {
  readonly #held: Held;
  readonly #parts: JournalParts;
  /** What the list has. */
  #newest: string[] = [];
  #bytes = 0;
  #objects = 0;
  /** Of the next object; an attempt that failed is repeated under the same name. */
  #next = "";

  constructor(held: Held, parts: JournalParts) {
    this.#held = held;
    this.#parts = parts;
  }

  async *read(signal: AbortSignal): AsyncGenerator<string> {
    const { link } = this.#parts;
    const { id } = this.#held;
    const names = (await link.send("LRANGE", link.key("parts", id), 0, -1)) as string[];
    for (const name of names) yield* this.#object(name, signal);
    this.#newest = (await link.send("LRANGE", link.key("journal", id), 0, -1)) as string[];
    this.#bytes = this.#newest.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    this.#objects = names.length;
    this.#rename();
    yield* this.#newest;
  }

  async append(lines: readonly string[]): Promise<void> {
    const { link, member } = this.#parts;
    const { id, epoch } = this.#held;
    const text = lines.join("");
    const bytes = Buffer.byteLength(text);
    if (this.#bytes + bytes >= PART_BYTES) return this.#keep(text);
    const outcome = await link.run(APPEND, id, member, epoch, this.#newest.length, this.#objects, text);
    this.#check(outcome);
    this.#newest.push(text);
    this.#bytes += bytes;
  }

  /** Makes an object of all that the list has, and of one more text. */
  async #keep(text: string): Promise<void> {
    const { link, objects, spool, member } = this.#parts;
    const { id, epoch } = this.#held;
    const path = spool.upload(this.#next);
    await link.run(INTEND, this.#next, INTENT);
    try {
      await writeFile(path, [...this.#newest, text], { mode: 0o600 });
      await objects.put(this.#next, path);
    } catch (error) {
      // The batch waits for the bucket as for the store.
      throw new SluiceError("BROKER_UNAVAILABLE", messageOf(error), { cause: error });
    } finally {
      await rm(path, { force: true });
    }
    this.#check(await link.run(PART, id, member, epoch, this.#objects, this.#next));
    this.#objects++;
    this.#newest = [];
    this.#bytes = 0;
    this.#rename();
  }

  #check(outcome: unknown): void {
    const { id } = this.#held;
    if (outcome === "lost") throw new LeaseLost(id);
    if (outcome === "changed")
      throw new SluiceError(
        "BATCH_STORE",
        `the store lost answers of ${id}; the batch continues from the remaining answers`,
      );
  }

  /** The texts of an object, each of whole lines. */
  async *#object(name: string, signal: AbortSignal): AsyncGenerator<string> {
    const { objects, log } = this.#parts;
    let content: AsyncIterable<Buffer>;
    try {
      ({ content } = await objects.get(name, signal));
    } catch (error) {
      if (!isMissing(error)) throw error;
      log.error(
        { batch: this.#held.id, object: name },
        "stored answers of a batch are missing, so Sluice sends these lines again",
      );
      return;
    }
    let rest: Buffer[] = [];
    for await (const chunk of content) {
      const end = chunk.lastIndexOf(0x0a) + 1;
      if (end === 0) rest.push(chunk);
      else {
        yield Buffer.concat([...rest, chunk.subarray(0, end)]).toString();
        rest = [chunk.subarray(end)];
      }
    }
  }

  #rename(): void {
    this.#next = `part-${this.#held.id.slice("batch_".length)}-${randomBytes(8).toString("hex")}`;
  }
}
