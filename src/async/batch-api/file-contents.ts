import { createReadStream } from "node:fs";
import type { Readable } from "node:stream";
import type { BatchFolder } from "./folder.ts";

/** Where the content of files is kept. The database knows the files; what is here without a file counts as waste. */
export interface FileContents {
  /**
   * Takes over a complete file of this machine, which is on the disk, as the content of `id`. A second call for the same id
   * replaces the content.
   * @param path of the folder of the batches; nothing is there afterwards, or may be removed
   * @throws SluiceError BATCH_STORE, and then the content is not kept
   */
  keep(id: string, path: string): Promise<void>;
  /** A stream of the first `bytes` bytes of the content, from its start. @throws SluiceError BATCH_STORE */
  read(id: string, bytes: number): Promise<Readable>;
  /** A path on this machine with the whole content, which stays until `free`. @throws SluiceError BATCH_STORE, or of the signal */
  local(id: string, signal: AbortSignal): Promise<string>;
  /** No work needs the local content of `id` any more. */
  free(id: string): void;
}

/** Contents in the folder of the batches itself. */
export class FolderContents implements FileContents {
  readonly #folder: BatchFolder;

  constructor(folder: BatchFolder) {
    this.#folder = folder;
  }

  async keep(id: string, path: string): Promise<void> {
    this.#folder.take(id, path);
  }

  async read(id: string, bytes: number): Promise<Readable> {
    return createReadStream(this.#folder.content(id), { end: Math.max(0, bytes - 1) });
  }

  async local(id: string): Promise<string> {
    return this.#folder.content(id);
  }

  free(): void {}
}
