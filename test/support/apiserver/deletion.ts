import { type Kind, resourceOf } from "./kind.ts";
import { type ApiObject, isObject, type Json } from "./object.ts";
import { conflict } from "./refusal.ts";
import type { Storage } from "./storage.ts";

/** What keeps an object from being removed. */
export function finalizersOf(object: ApiObject): readonly unknown[] {
  const spec = object.kind === "Namespace" && isObject(object["spec"]) ? object["spec"]["finalizers"] : undefined;
  return [...(object.metadata.finalizers ?? []), ...(Array.isArray(spec) ? spec : [])];
}

/**
 * Deletes an object, or marks it as being deleted where finalizers or a node have to let go of it first.
 * @param options DeleteOptions of the request
 * @param now wall clock, milliseconds
 * @throws Refusal 409 where a precondition does not hold
 */
export function deleteObject(
  storage: Storage,
  kind: Kind,
  old: ApiObject,
  options: Json,
  now: number,
): { readonly gone: boolean; readonly object: ApiObject } {
  const { name, uid, resourceVersion } = old.metadata;
  const wanted = isObject(options["preconditions"]) ? options["preconditions"] : {};
  for (const [field, title, actual] of [
    ["uid", "UID", uid],
    ["resourceVersion", "ResourceVersion", resourceVersion],
  ] as const) {
    if (wanted[field] === undefined || wanted[field] === actual) continue;
    const why = `${title} in precondition: ${String(wanted[field])}, ${title} in object meta: ${actual}`;
    throw conflict(kind, name, `Precondition failed: ${why}`);
  }
  const grace = Number(options["gracePeriodSeconds"] ?? 30);
  // Only a pod on a node is asked to end first; nobody runs it here, so that it stays until it is deleted with 0.
  const waits = kind.kind === "Pod" && grace > 0 && isObject(old["spec"]) && old["spec"]["nodeName"] !== undefined;
  const marked = old.metadata.deletionTimestamp !== undefined;
  const goes = !waits && finalizersOf(old).length === 0;
  // A pod is marked first and removed then, also where nothing is waited for: watches tell of both.
  const marks = kind.kind === "Pod" && (!marked || (old.metadata.deletionGracePeriodSeconds ?? 0) > 0);
  if (goes && !marks) return { gone: true, object: storage.remove(resourceOf(kind), old) };
  if (!goes && marked) return { gone: false, object: old };
  const next: ApiObject = {
    ...old,
    metadata: {
      ...old.metadata,
      deletionTimestamp: new Date(now + (waits ? grace * 1000 : 0)).toISOString().replace(/\.\d+Z$/, "Z"),
      deletionGracePeriodSeconds: waits ? grace : 0,
      ...(kind.custom ? { generation: (old.metadata.generation ?? 1) + 1 } : {}),
    },
  };
  if (kind.kind === "Namespace") next["status"] = { phase: "Terminating" };
  const written = storage.write(resourceOf(kind), next);
  return goes ? { gone: true, object: storage.remove(resourceOf(kind), written) } : { gone: false, object: written };
}
