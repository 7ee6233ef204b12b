import { z } from "zod";
import { didYouMean } from "../../../base/document/nearest.ts";
import { knownKeys } from "../../../base/document/schema-keys.ts";
import type { PoolSettings, QueueSettings } from "../../brokers/settings.ts";
import type { ConfigDocument } from "./config-document.ts";
import { requiredText } from "./fields.ts";
import type { Findings } from "./findings.ts";
import { GATE_FIELDS, gateOf } from "./gate-fields.ts";

/** Most workers of one pool: each holds a message and a connection. */
export const MAX_WORKERS = 100_000;
const MAX_POOLS = 1_000;

const SCHEMA = z
  .array(z.object({ id: requiredText, workers: z.int().min(1).max(MAX_WORKERS), ...GATE_FIELDS }))
  .min(1)
  .max(MAX_POOLS);

/**
 * Reads worker pools: the content of the reference's `--pool-config-file` (async-processor 6.5). Keys that nobody knows are
 * warned about and ignored.
 */
export function readPools(document: ConfigDocument, findings: Findings): PoolSettings[] {
  const known = knownKeys(SCHEMA, [0]);
  if (Array.isArray(document.value))
    document.value.forEach((entry: unknown, at) => {
      findings.warnOfUnknown(document, [at], entry, known);
    });
  const seen = new Map<string, number>();
  return (findings.check(document, SCHEMA) ?? []).map((entry, at) => {
    const first = seen.get(entry.id);
    if (first === undefined) seen.set(entry.id, at);
    else
      findings.refuse(
        document,
        [at, "id"],
        `duplicate id ${JSON.stringify(entry.id)}; the pool at line ${document.positionOf([first]).line} has it already`,
      );
    return { id: entry.id, workers: entry.workers, gate: gateOf(entry, document, [at], findings) };
  });
}

/** The pool there is without a file: all queues that name none are its. */
export function defaultPool(workers: number): PoolSettings {
  return { id: "default", workers, gate: undefined };
}

/**
 * Holds queues and pools against each other: every queue needs a pool, and pools without a queue get no workers.
 * @param document where the queues stand, in its `list`
 * @param pools not empty
 */
export function checkPools(
  queues: readonly QueueSettings[],
  pools: readonly PoolSettings[],
  document: ConfigDocument,
  list: string,
  findings: Findings,
): void {
  const ids = new Set(pools.map(({ id }) => id));
  const used = new Set(queues.map(({ workerPoolId }) => workerPoolId));
  queues.forEach(({ workerPoolId }, at) => {
    if (ids.has(workerPoolId)) return;
    const there = [...ids].join(", ");
    findings.refuse(
      document,
      [list, at, "worker_pool_id"],
      `there is no worker pool ${JSON.stringify(workerPoolId)}, only ${there}${didYouMean(workerPoolId, ids)}`,
    );
  });
  for (const id of ids)
    if (!used.has(id))
      findings.warn(
        document,
        [list],
        `no queue has the worker_pool_id ${JSON.stringify(id)}: that pool gets no workers`,
      );
}
