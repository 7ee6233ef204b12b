import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BatchDispatch } from "../../src/async/batch-api/batch-dispatch.ts";
import { BatchEngine } from "../../src/async/batch-api/batch-engine.ts";
import { BatchStore } from "../../src/async/batch-api/batch-store.ts";
import { newId } from "../../src/async/batch-api/file-table.ts";
import { BatchFolder } from "../../src/async/batch-api/folder.ts";
import { FolderBatches } from "../../src/async/batch-api/folder-batches.ts";
import { LineQueue } from "../../src/async/batch-api/line-queue.ts";
import { DEFAULT_BATCH_LIMITS } from "../../src/async/batch-api/records.ts";
import type { InferenceClient } from "../../src/async/dispatch/send/inference-client.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import type { VirtualClock } from "../../src/base/clock/virtual.ts";
import { createDispatchMetrics } from "../../src/base/telemetry/dispatch-metrics.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { MetricsRegistry } from "../../src/base/telemetry/registry.ts";

/** The default of `--batch-baseline`. */
export const DEFAULT_BASELINE = 0.2;

/** A batch that is worked on, in a folder of its own. */
export interface RunningBatch {
  /** Removes the folder. */
  end(): void;
}

/** Begins a batch of so many lines, as `sluice gateway --batch` does. */
export function startBatch(options: {
  readonly lines: number;
  readonly baseline: number;
  /** Default: that of `sluice gateway`. */
  readonly workers: number | undefined;
  /** What batches may have now. */
  readonly allowance: () => { readonly requests: number; readonly size: number };
  readonly clock: VirtualClock;
  readonly client: InferenceClient;
}): RunningBatch {
  const { lines, baseline, workers = 1024, allowance, clock, client } = options;
  const log = silentLogger;
  const path = mkdtempSync(join(tmpdir(), "sluice-closed-loop-"));
  const folder = new BatchFolder(path);
  const store = new BatchStore(folder);
  const now = clock.wall() / 1000;
  const inputFileId = newId("file-");
  const input = Array.from(
    { length: lines },
    (_, n) => `{"custom_id":"c${n}","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":"p"}}\n`,
  ).join("");
  writeFileSync(folder.content(inputFileId), input);
  store.files.add({
    ...{ id: inputFileId, owner: "", purpose: "batch", filename: "in.jsonl", bytes: input.length, createdAt: now },
    expiresAt: now + 86_400,
  });
  store.batches.add(
    {
      ...{ caller: { id: "", name: "" }, endpoint: "/v1/completions", inputFileId, completionWindow: "24h" },
      ...{ windowSeconds: 86_400, metadata: undefined, outputSeconds: undefined },
    },
    DEFAULT_BATCH_LIMITS,
    now,
  );
  const queue = new LineQueue(clock);
  const dispatch = new BatchDispatch(
    queue,
    {
      ...{ gateway: "http://gateway", gatewayKey: undefined, tls: {}, workers, requestTimeout: 600_000 },
      gate: { baseline, from: { room: () => ({ ...allowance(), at: clock.wall() }) } },
    },
    { clock, random: new SeededRandom(1), log, metrics: createDispatchMetrics(new MetricsRegistry()), client },
  );
  const engine = new BatchEngine({
    ...{
      store: new FolderBatches(store),
      queue,
      limits: DEFAULT_BATCH_LIMITS,
      window: 2000,
      namesBatches: true,
      clock,
      log,
    },
  });
  dispatch.start();
  engine.start();
  return {
    end() {
      store.close();
      rmSync(path, { recursive: true, force: true });
    },
  };
}
