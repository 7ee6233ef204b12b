import { SluiceError } from "../../base/inference/errors.ts";
import { GROUP, type InferencePool, objectId } from "./objects.ts";

/** The most pools a message lists. */
const MAX_LISTED = 20;

/** The pool that this process serves; an undefined field matches any pool. */
export interface PoolIdentity {
  readonly name?: string | undefined;
  readonly namespace?: string | undefined;
  readonly group?: string | undefined;
}

/**
 * The pool that `wanted` means: the only one that matches. A pool that exists in both groups under the same namespace and name
 * counts as that of `inference.networking.k8s.io`. A pool being deleted does not count (api-resources 3.1, 3.3).
 * @throws SluiceError POOL_AMBIGUOUS when several match; the message lists them
 */
export function choosePool(pools: Iterable<InferencePool>, wanted: PoolIdentity): InferencePool | undefined {
  const fitting = new Map<string, InferencePool>();
  for (const pool of pools) {
    const { name, namespace } = pool.meta;
    if (pool.meta.deleting) continue;
    if (wanted.name !== undefined && wanted.name !== name) continue;
    if (wanted.namespace !== undefined && wanted.namespace !== namespace) continue;
    if (wanted.group !== undefined && wanted.group !== pool.group) continue;
    const id = objectId(pool.meta);
    if (pool.group === GROUP.stable || !fitting.has(id)) fitting.set(id, pool);
  }
  if (fitting.size <= 1) return fitting.values().next().value;
  const all = [...fitting.keys()].sort();
  const more = all.length > MAX_LISTED ? `, and ${all.length - MAX_LISTED} more` : "";
  const flag = wanted.name === undefined ? "--pool-name" : "--pool-namespace";
  throw new SluiceError(
    "POOL_AMBIGUOUS",
    `there are ${all.length} InferencePools: ${all.slice(0, MAX_LISTED).join(", ")}${more}; choose one with ${flag}`,
  );
}
