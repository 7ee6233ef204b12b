import { didYouMean } from "../../base/document/nearest.ts";
import type { InferencePool, ResourceObject } from "./objects.ts";
import { objectId } from "./ownership.ts";
import type { ResourceStore } from "./resource-store.ts";

/**
 * Which objects of a complete set do nothing although nothing is wrong with any of them alone: those whose `poolRef` names a
 * pool that is not in the set, and InferenceModels whose model name another one has. Objects of other pools of the set are
 * somebody else's business; what refers to our pool in another group the store tells itself. A cluster never shows a
 * complete set, so only a folder is asked.
 * @param store what it made of these objects; without a pool nothing is said, since then everything is idle
 * @returns one line for each
 */
export function idleObjects(objects: readonly ResourceObject[], store: ResourceStore): string[] {
  const ours = store.pool;
  if (ours === undefined) return [];
  const pools = new Set(objects.filter(({ kind }) => kind === "InferencePool").map(({ meta }) => objectId(meta)));
  const lines: string[] = [];
  for (const object of objects) {
    if (object.kind === "InferencePool" || object.meta.deleting) continue;
    const why = whyIdle(object, ours, pools, store);
    if (why !== undefined) lines.push(`${object.kind} ${objectId(object.meta)} has no effect: ${why}`);
  }
  return lines;
}

function whyIdle(
  object: Exclude<ResourceObject, InferencePool>,
  ours: InferencePool,
  pools: ReadonlySet<string>,
  store: ResourceStore,
): string | undefined {
  const { poolRef, meta } = object;
  const wanted = `${meta.namespace}/${poolRef.name}`;
  if (!pools.has(wanted))
    return `there is no InferencePool ${wanted}, ours is ${objectId(ours.meta)}${didYouMean(wanted, pools)}`;
  if (object.kind !== "InferenceModel" || wanted !== objectId(ours.meta) || poolRef.group !== ours.group)
    return undefined;
  const winner = store.model(object.modelName)?.model;
  if (winner === undefined || objectId(winner.meta) === objectId(meta)) return undefined;
  return `${objectId(winner.meta)} has the same modelName and comes first, by metadata.creationTimestamp, then by name`;
}
