import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock, Timer } from "../clock/clock.ts";
import { readDocument } from "../document/read.ts";
import { messageOf, SluiceError } from "../inference/errors.ts";
import { type EndpointsFile, type EndpointsFlavour, endpointsOf } from "./endpoints-file.ts";
import type { AppliedChange, EndpointRegistry } from "./registry.ts";

/** The largest endpoints file, bytes (api-resources 6A.2). */
export const MAX_FILE_BYTES = 1024 * 1024;
/** Milliseconds from the first sign of a change to reading the file: one save is several events. */
const SETTLE = 100;
/** Milliseconds between looks at the file where no event comes: network file systems, a replaced directory. */
const LOOK_AGAIN = 5000;
/** The most problems of one file that are told one by one. */
const MAX_TOLD = 20;

/** What people should know; each text is one line. */
export interface DiscoveryLog {
  warn(text: string): void;
  info(text: string): void;
}

export interface FileDiscoveryOptions {
  readonly path: string;
  readonly flavour: EndpointsFlavour;
  /** Follow changes of the file. */
  readonly watchFile: boolean;
  readonly registry: EndpointRegistry;
  readonly clock: Clock;
  readonly log: DiscoveryLog;
}

/**
 * Endpoints from a file instead of from Kubernetes (api-resources 6A). Watches the directory, so that a file replaced by
 * renaming and the symlinks of a mounted ConfigMap are seen like a file written in place.
 */
export class FileDiscovery {
  readonly #options: FileDiscoveryOptions;
  #watcher: FSWatcher | undefined;
  #toldUnwatchable = false;
  #settling: Timer | undefined;
  #looking: Timer | undefined;
  #loading = false;
  #again = false;
  #closed = false;
  /** What the file was when it was last read: inode, size, times; "" when it could not be found. */
  #seen = "";

  constructor(options: FileDiscoveryOptions) {
    this.#options = options;
  }

  /**
   * Loads the file and, with `watchFile`, begins to follow it.
   * @throws SluiceError DOCUMENT_... when the file cannot be read, ENDPOINTS_FILE when any entry is bad
   */
  async start(): Promise<void> {
    const { path, registry } = this.#options;
    this.#seen = await signatureOf(path);
    const file = await this.#read();
    if (file.problems.length > 0) {
      const more = file.problems.length - 1;
      throw new SluiceError("ENDPOINTS_FILE", file.problems[0] + (more > 0 ? ` (and ${more} more)` : ""));
    }
    this.#tell(registry.apply(file.endpoints), file.warnings);
    if (!this.#options.watchFile || this.#closed) return;
    this.#attach();
    this.#lookAgain();
    // What changed between reading and watching.
    if ((await signatureOf(path)) !== this.#seen) this.#changed();
  }

  /** Stops following the file; the endpoints stay. */
  close(): void {
    this.#closed = true;
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#settling?.cancel();
    this.#looking?.cancel();
  }

  async #read(): Promise<EndpointsFile> {
    const { path, flavour } = this.#options;
    return endpointsOf(await readDocument(path, { maxBytes: MAX_FILE_BYTES }), flavour);
  }

  #attach(): void {
    const directory = dirname(this.#options.path);
    const lost = (error: unknown): void => {
      this.#watcher?.close();
      this.#watcher = undefined;
      if (this.#toldUnwatchable) return;
      this.#toldUnwatchable = true;
      const every = `looking every ${LOOK_AGAIN / 1000} s instead`;
      this.#options.log.warn(`endpoints file: cannot watch ${directory}, ${every}: ${messageOf(error)}`);
    };
    try {
      this.#watcher = watch(directory, { persistent: false }, () => this.#changed());
      this.#watcher.on("error", lost);
    } catch (error) {
      lost(error);
    }
  }

  /** Every event of the directory counts: a ConfigMap changes by renaming a symlink of another name. */
  #changed(): void {
    if (this.#closed || this.#settling !== undefined) return;
    this.#settling = this.#options.clock.after(
      SETTLE,
      () => {
        this.#settling = undefined;
        void this.#reload();
      },
      true,
    );
  }

  /** One at a time, so that changes are applied in their order. */
  async #reload(): Promise<void> {
    this.#again = true;
    if (this.#loading) return;
    this.#loading = true;
    while (this.#again && !this.#closed) {
      this.#again = false;
      await this.#reloadOnce();
    }
    this.#loading = false;
  }

  async #reloadOnce(): Promise<void> {
    const { path, registry, log } = this.#options;
    const signature = await signatureOf(path);
    if (signature === this.#seen) return;
    this.#seen = signature;
    try {
      const { endpoints, problems, warnings } = await this.#read();
      if (this.#closed) return;
      for (const problem of problems.slice(0, MAX_TOLD)) log.warn(`endpoints file: entry skipped: ${problem}`);
      if (problems.length > MAX_TOLD) log.warn(`endpoints file: ${problems.length - MAX_TOLD} more entries skipped`);
      // An id whose entry became bad is not among the good ones, and goes.
      this.#tell(registry.apply(endpoints), warnings);
    } catch (error) {
      log.warn(`endpoints file: the endpoints stay as they were: ${messageOf(error)}`);
    }
  }

  #tell({ added, removed, refused }: AppliedChange, warnings: readonly string[]): void {
    const { log, path, registry } = this.#options;
    log.info(`endpoints file: ${path}: ${registry.size} endpoints, ${added} added, ${removed} removed`);
    for (const warning of warnings.slice(0, MAX_TOLD)) log.warn(`endpoints file: ${warning}`);
    if (warnings.length > MAX_TOLD)
      log.warn(`endpoints file: ${warnings.length - MAX_TOLD} more entries repeat an endpoint or an address`);
    if (refused > 0) log.warn(`endpoints file: ${refused} endpoints refused: more than ${registry.maxEndpoints}`);
  }

  #lookAgain(): void {
    this.#looking = this.#options.clock.after(
      LOOK_AGAIN,
      () => {
        // Renewed every time: the watch of a directory that was removed and made anew stays silent for ever.
        this.#watcher?.close();
        this.#watcher = undefined;
        this.#attach();
        void this.#reload();
        this.#lookAgain();
      },
      true,
    );
  }
}

async function signatureOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch {
    return "";
  }
}
