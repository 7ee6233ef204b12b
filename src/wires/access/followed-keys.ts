import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import { FolderWatch, fileSignature } from "../../base/document/folder-watch.ts";
import { readDocument } from "../../base/document/read.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { keysIn, MAX_KEYS_BYTES } from "./key-entry.ts";
import { KeyTable } from "./key-table.ts";

/** The permission of every user to read. */
const WORLD_READABLE = 0o004;

interface FollowedKeysOptions {
  readonly file: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Other keys are in force. */
  changed(): void;
}

/** The keys of a file, read again after every change. A file that is wrong changes nothing: the last good keys count. */
export class FollowedKeys {
  readonly #options: FollowedKeysOptions;
  readonly #watch: FolderWatch;
  #table = new KeyTable([]);
  #toldReadable = false;
  #closed = false;

  constructor(options: FollowedKeysOptions) {
    const { file, clock, log } = options;
    this.#options = options;
    this.#watch = new FolderWatch({
      folder: dirname(file),
      clock,
      signature: () => fileSignature(file),
      changed: () => this.#reload(),
      unwatchable: (text) => log.warn({ file }, `keys file: ${text}`),
    });
  }

  /** The keys in force. */
  get table(): KeyTable {
    return this.#table;
  }

  /** Reads the file, and begins to follow it. @throws SluiceError DOCUMENT_... */
  async start(): Promise<void> {
    const { file } = this.#options;
    const seen = await fileSignature(file);
    await this.#read();
    if (!this.#closed) await this.#watch.start(seen);
  }

  close(): void {
    this.#closed = true;
    this.#watch.close();
  }

  async #read(): Promise<void> {
    const { file, log, changed } = this.#options;
    const keys = keysIn(await readDocument(file, { maxBytes: MAX_KEYS_BYTES }));
    this.#table = new KeyTable(keys);
    changed();
    await this.#checkMode();
    log.info({ file, keys: keys.length }, "keys file: the gateway uses its keys");
    if (keys.length === 0)
      log.warn(
        { file },
        "keys file: the file lists no key, so the gateway refuses every key; add a key with sluice keys add",
      );
  }

  async #reload(): Promise<void> {
    const { file, log } = this.#options;
    try {
      await this.#read();
    } catch (error) {
      log.error(
        { file, cause: messageOf(error) },
        "keys file: the gateway cannot use the changed file and keeps the old keys; correct the file",
      );
    }
  }

  /** Hashes of keys tell nobody a key, but who may use what is nobody's business. */
  async #checkMode(): Promise<void> {
    const { file, log } = this.#options;
    const mode = await stat(file).then(
      (found) => found.mode,
      () => 0,
    );
    const isReadable = (mode & WORLD_READABLE) !== 0;
    if (isReadable && !this.#toldReadable)
      log.warn({ file }, `keys file: every user of this machine can read it; run chmod o-rwx ${file}`);
    this.#toldReadable = isReadable;
  }
}
