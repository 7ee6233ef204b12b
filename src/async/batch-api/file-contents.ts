import { createReadStream } from "node:fs";
import type { Readable } from "node:stream";
import type { BatchFolder } from "./folder.ts";

/** How the content of files is read. A new content is in the folder of the batches; from there it may move to another place. */
export interface FileContents {
  /** A stream of the content. @param bytes of the file @throws SluiceError BATCH_STORE */
  read(id: string, bytes: number): Promise<Readable>;
  /** A path on this machine with the whole content, which stays until `free`. @throws SluiceError BATCH_STORE, or of the signal */
  local(id: string, signal: AbortSignal): Promise<string>;
  /** A batch that read the content has ended. */
  free(id: string): void;
}

/** Contents that stay in the folder of the batches. */
export class FolderContents implements FileContents {
  readonly #folder: BatchFolder;

  constructor(folder: BatchFolder) {
    this.#folder = folder;
  }

  async read(id: string, bytes: number): Promise<Readable> {
    return createReadStream(this.#folder.content(id), { end: Math.max(0, bytes - 1) });
  }

  async local(id: string): Promise<string> {
    return this.#folder.content(id);
  }

  free(): void {}
}
