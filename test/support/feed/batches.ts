/** Made-up batches, in the shape of src/wires/admin/feed/batches.ts. */
import type { BatchesFeed, BatchFeed } from "../../../src/wires/admin/feed/batches.ts";

/** @param cancelled ids of batches that end before their lines */
export function batchesOf(cancelled: ReadonlySet<string> = new Set()): BatchesFeed {
  const now = Math.floor(Date.now() / 1000);
  const batch: BatchFeed = {
    ...{
      id: "batch_7f4f8efe564237a1c4d40a559d072189",
      caller: "",
      status: "in_progress",
      endpoint: "/v1/chat/completions",
    },
    ...{
      createdAt: now - 60,
      expiresAt: now + 30,
      endedAt: null,
      total: 1000,
      completed: 400,
      failed: 50,
      underWay: 64,
    },
    ...{ linesPerSecond: 12, etaSeconds: 46, makesIt: false, inputTokens: 31_000, outputTokens: 9100, problem: null },
  };
  return {
    at: now * 1000,
    mayCancel: true,
    gate: {
      ...{ state: "open", because: "D 0.52 is above B 0.2", budget: 0.52, baseline: 0.2, running: 64, workers: 64 },
    },
    ...{ open: 1, linesLeft: 550, linesPerSecond: 12 },
    batches: [
      { ...batch, status: cancelled.has(batch.id) ? "cancelling" : batch.status },
      {
        ...{
          ...batch,
          id: "batch_6a0d13c77b5e4f50a9b1f6a8c2d4e6f0",
          caller: "team-a",
          status: "completed",
          endedAt: now - 30,
          completed: 990,
          failed: 10,
        },
        ...{ underWay: 0, linesPerSecond: 0, etaSeconds: null, makesIt: null },
      },
      {
        ...{ ...batch, id: "batch_5b2c9d1e8f7a46b3902d4c6e8f1a3b5c", status: "failed", endedAt: now - 90, total: 0 },
        ...{ completed: 0, failed: 0, underWay: 0, linesPerSecond: 0, etaSeconds: null, makesIt: null },
        ...{ inputTokens: 0, outputTokens: 0, problem: "line 17: custom_id: the value was used in line 3" },
      },
    ],
  };
}
