import { createWriteStream, existsSync, renameSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { FileContents } from "./file-contents.ts";
import type { BatchFolder } from "./folder.ts";
import type { S3Objects } from "./s3-objects.ts";

/** The objects as contents are read from them. */
export type ReadObjects = Pick<S3Objects, "get">;

/**
 * Contents in a bucket. A content is in the folder until its object is whole, so one of the two has it. A batch reads its input on
 * this machine: a copy comes from the bucket where the folder has none any more.
 */
export class S3Contents implements FileContents {
  readonly #folder: BatchFolder;
  readonly #objects: ReadObjects;
  readonly #freed: (id: string) => void;
  readonly #copying = new Map<string, Promise<void>>();

  /** @param freed called when no batch reads a content any more */
  constructor(folder: BatchFolder, objects: ReadObjects, freed: (id: string) => void = () => {}) {
    this.#folder = folder;
    this.#freed = freed;
    this.#objects = objects;
  }

  async read(id: string, bytes: number): Promise<Readable> {
    // The mover may remove the name at any time, but not an open file.
    const file = await open(this.#folder.content(id)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw new SluiceError("BATCH_STORE", `the content of ${id} cannot be read: ${messageOf(error)}`);
    });
    if (file !== undefined) return file.createReadStream({ end: Math.max(0, bytes - 1) });
    const object = await this.#objects.get(id);
    if (object.bytes === bytes) return object.content;
    object.content.destroy();
    throw new SluiceError("BATCH_BUCKET", `the object of ${id} has ${object.bytes} bytes instead of ${bytes}`);
  }

  async local(id: string, signal: AbortSignal): Promise<string> {
    const content = this.#folder.content(id);
    if (existsSync(content)) return content;
    const copy = this.#folder.copy(id);
    if (existsSync(copy)) return copy;
    // Two batches may have one input.
    let copying = this.#copying.get(id);
    if (copying === undefined) {
      copying = this.#copy(id, copy, signal).finally(() => this.#copying.delete(id));
      this.#copying.set(id, copying);
    }
    await copying;
    return copy;
  }

  free(id: string): void {
    rmSync(this.#folder.copy(id), { force: true });
    this.#freed(id);
  }

  async #copy(id: string, copy: string, signal: AbortSignal): Promise<void> {
    const part = this.#folder.upload(`${id}.copy`);
    try {
      const { content, bytes } = await this.#objects.get(id, signal);
      await pipeline(content, createWriteStream(part, { mode: 0o600 }), { signal });
      const { size } = statSync(part);
      if (size !== bytes) throw new Error(`only ${size} of ${bytes} bytes arrived`);
      renameSync(part, copy);
    } catch (error) {
      rmSync(part, { force: true });
      signal.throwIfAborted();
      if (error instanceof SluiceError) throw error;
      throw new SluiceError("BATCH_BUCKET", `the download of ${id} failed: ${messageOf(error)}`, { cause: error });
    }
  }
}
