import { copyFile, mkdir, open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";

/** Contents that all processes of a store reach, each under its own name. A name is never written with another content. */
export interface FileObjects {
  /** Stores a file of this machine as an object. @throws SluiceError BATCH_BUCKET */
  put(id: string, path: string): Promise<void>;
  /** @throws SluiceError BATCH_BUCKET, also when there is none */
  get(id: string, signal?: AbortSignal): Promise<{ readonly content: Readable; readonly bytes: number }>;
  /** Removes an object, if it is there. @throws SluiceError BATCH_BUCKET */
  remove(id: string): Promise<void>;
}

/** Whether an error of `get` says that there is no such object. */
export function isMissing(error: unknown): boolean {
  const cause = (error as { readonly cause?: { readonly code?: string; readonly name?: string } }).cause;
  return cause?.code === "ENOENT" || cause?.name === "NoSuchKey";
}

/** Objects that another thread may upload: an upload hashes and copies megabytes at a time, which would hold up the requests of this one. */
export class RelayedObjects implements FileObjects {
  readonly #objects: FileObjects;
  #upload: FileObjects["put"] | undefined;

  constructor(objects: FileObjects) {
    this.#objects = objects;
  }

  /** @param upload makes uploads from now on; undefined = this thread makes them */
  uploadBy(upload: FileObjects["put"] | undefined): void {
    this.#upload = upload;
  }

  put(id: string, path: string): Promise<void> {
    return this.#upload === undefined ? this.#objects.put(id, path) : this.#upload(id, path);
  }

  get(id: string, signal?: AbortSignal): ReturnType<FileObjects["get"]> {
    return this.#objects.get(id, signal);
  }

  remove(id: string): Promise<void> {
    return this.#objects.remove(id);
  }
}

/** Objects in a folder that all processes share, such as a mount of NFS. */
export class FolderObjects implements FileObjects {
  readonly #folder: string;

  /** @param folder made where it is not there */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Looks whether the folder takes files. @throws SluiceError BATCH_BUCKET */
  async check(): Promise<void> {
    await this.#guard("cannot be used", async () => {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await synced(this.#folder);
    });
  }

  async put(id: string, path: string): Promise<void> {
    await this.#guard(`did not store ${id}`, async () => {
      const part = this.#path(`${id}.part`);
      await copyFile(path, part);
      await synced(part);
      await rename(part, this.#path(id));
      await synced(this.#folder);
    });
  }

  async get(id: string): Promise<{ readonly content: Readable; readonly bytes: number }> {
    return this.#guard(`did not return ${id}`, async () => {
      const file = await open(this.#path(id), "r");
      const { size: bytes } = await file.stat();
      return { content: file.createReadStream(), bytes };
    });
  }

  async remove(id: string): Promise<void> {
    await this.#guard(`did not remove ${id}`, async () => {
      for (const name of [id, `${id}.part`]) await rm(this.#path(name), { force: true });
    });
  }

  #path(id: string): string {
    return join(this.#folder, id);
  }

  async #guard<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      throw new SluiceError("BATCH_BUCKET", `the folder ${this.#folder} ${what}: ${messageOf(cause)}`, { cause });
    }
  }
}

async function synced(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
