import { statSync } from "node:fs";
import { join } from "node:path";
import { durationText } from "../../async/batch/batch-progress.ts";
import { paceOf } from "../../async/batch-api/batch-pace.ts";
import { isOpen } from "../../async/batch-api/batch-status.ts";
import { BatchStore } from "../../async/batch-api/batch-store.ts";
import { BatchFolder } from "../../async/batch-api/folder.ts";
import type { StoredBatch } from "../../async/batch-api/records.ts";
import type { Clock } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { BatchSource, ShownBatch, ShownBatches, ShownGate } from "./source.ts";

/** Milliseconds after which a process that tells nothing counts as gone. It tells the gate every second. */
const GONE = 10_000;

/** The batches of all callers in a folder of this machine, whether or not a process serves it. */
export class FolderSource implements BatchSource {
  readonly #store: BatchStore;
  readonly #clock: Clock;
  readonly #path: string;

  /** @throws SluiceError BATCH_STORE where the folder has no batches */
  constructor(path: string, clock: Clock) {
    if (statSync(join(path, "batches.db"), { throwIfNoEntry: false }) === undefined)
      throw new SluiceError("BATCH_STORE", `${path} is not the folder of a Batch API: it has no batches.db`);
    this.#path = path;
    this.#clock = clock;
    this.#store = new BatchStore(new BatchFolder(path));
  }

  async list(limit: number): Promise<ShownBatches> {
    const found = this.#store.batches.latest(limit + 1);
    return {
      batches: found.slice(0, limit).map((batch) => this.#shown(batch)),
      hasMore: found.length > limit,
      gate: this.#gate(),
    };
  }

  async get(id: string): Promise<{ readonly batch: ShownBatch; readonly gate: ShownGate }> {
    return { batch: this.#shown(this.#find(id)), gate: this.#gate() };
  }

  async cancel(id: string): Promise<string> {
    const { status } = this.#find(id);
    if (status !== "cancelling" && !this.#store.batches.move(id, "cancelling", this.#clock.wall() / 1000))
      throw new SluiceError(
        "BATCH_API_REFUSED",
        `${id} has the status ${this.#find(id).status}, and cannot be cancelled`,
      );
    return "cancelling";
  }

  close(): void {
    this.#store.close();
  }

  #find(id: string): StoredBatch {
    const batch = this.#store.batches.any(id);
    if (batch !== undefined) return batch;
    throw new SluiceError(
      "BATCH_API_REFUSED",
      `there is no batch ${JSON.stringify(id.slice(0, 100))} in ${this.#path}; sluice batch ls --dir ${this.#path} lists the batches`,
    );
  }

  #gate(): ShownGate {
    const ago = this.#toldAgo();
    if (ago === undefined) return { state: "unknown", reason: "no process has served the folder yet" };
    if (ago > GONE)
      return { state: "stopped", reason: `no process has served the folder for ${durationText(ago / 1000)}` };
    const { state, because } = this.#store.gate()!;
    return { state, reason: because };
  }

  /** Milliseconds; undefined = no process has told anything. */
  #toldAgo(): number | undefined {
    const at = this.#store.gateAt();
    return at === undefined ? undefined : this.#clock.wall() - at;
  }

  #shown(batch: StoredBatch): ShownBatch {
    const { id, caller, status, endpoint, total, completed, failed, problems, problem } = batch;
    const { inputTokens, cachedTokens, outputTokens, reasoningTokens } = batch;
    const open = isOpen(status);
    const served = (this.#toldAgo() ?? Number.POSITIVE_INFINITY) <= GONE;
    return {
      ...{ id, caller: caller.name, status, endpoint, createdAt: batch.createdAt, expiresAt: batch.expiresAt },
      ...{ total, completed, failed, inputTokens, cachedTokens, outputTokens, reasoningTokens },
      inputFile: batch.inputFileId,
      outputFile: batch.hasOutput ? batch.outputFileId : undefined,
      errorFile: batch.hasErrors ? batch.errorFileId : undefined,
      problems,
      pace: open && served ? paceOf(batch, this.#clock.wall() / 1000) : undefined,
      problem: open && problem !== "" ? problem : undefined,
    };
  }
}
