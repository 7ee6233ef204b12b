import { existsSync, rmSync } from "node:fs";
import { type Clock, delay } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { BatchFolder } from "./folder.ts";
import type { S3Files } from "./s3-files.ts";
import type { S3Objects } from "./s3-objects.ts";

/** Milliseconds between two looks for work. */
const LOOK = 1000;
/** Seconds until a step that failed is tried again. */
const AGAIN = 30;

export interface S3MoverParts {
  readonly folder: BatchFolder;
  readonly files: S3Files;
  readonly objects: Pick<S3Objects, "put" | "remove">;
  /** Whether an open batch reads a file. */
  isInput(id: string): boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Moves the contents of files from the folder to the bucket, and removes objects that no file has: one step after the other, so
 * that no step meets another one for the same object. What is to be done is in the database, so an end of the process loses nothing.
 */
export class S3Mover {
  readonly #parts: S3MoverParts;
  readonly #stopping = new AbortController();
  #working: Promise<void> | undefined;

  constructor(parts: S3MoverParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#working = this.#work();
  }

  /** Ends a step under way; a later process begins it again. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#working;
  }

  /** The batch that read an input has ended: its content goes, as soon as the bucket has it and no other batch reads it. */
  free(id: string): void {
    const { folder, files, isInput } = this.#parts;
    if (files.isMoved(id) && !isInput(id)) rmSync(folder.content(id), { force: true });
  }

  async #work(): Promise<void> {
    const { clock, log } = this.#parts;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        if (await this.#step()) continue;
      } catch (error) {
        log.error({ error: messageOf(error) }, "the list of files for the bucket cannot be read or written now");
      }
      await delay(clock, LOOK, signal).catch(() => {});
    }
  }

  /** @returns whether something was done */
  async #step(): Promise<boolean> {
    const { files, clock } = this.#parts;
    const now = clock.wall() / 1000;
    const waste = files.waste(now);
    for (const id of waste) if (!this.#stopping.signal.aborted) await this.#try(id, () => this.#remove(id));
    const id = files.unmoved(now);
    if (id !== undefined) await this.#try(id, () => this.#move(id));
    return waste.length > 0 || id !== undefined;
  }

  async #move(id: string): Promise<void> {
    const { folder, files, objects } = this.#parts;
    await objects.put(id, folder.content(id), this.#stopping.signal);
    files.moved(id);
    this.free(id);
  }

  async #remove(id: string): Promise<void> {
    await this.#parts.objects.remove(id);
    this.#parts.files.removed(id);
  }

  async #try(id: string, work: () => Promise<void>): Promise<void> {
    const { folder, files, clock, log } = this.#parts;
    try {
      await work();
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      // Whoever removes a file while it moves takes its row along, too.
      files.later(id, clock.wall() / 1000 + AGAIN);
      const isThere = existsSync(folder.content(id));
      log.error(
        { file: id, isThere, error: messageOf(error) },
        "a file cannot be moved to the bucket now; Sluice tries again",
      );
    }
  }
}
