import { z } from "zod";
import type { ObjectMeta } from "./objects.ts";
import {
  defaulting,
  labels,
  mapping,
  namespace,
  optional,
  stringMap,
  text,
  type UnknownKeys,
  whole,
} from "./scalars.ts";

/** Names of custom resources are DNS subdomains. */
const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const TIME = /^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

/** A point in time as Kubernetes writes it (RFC 3339) in wall-clock milliseconds; undefined for any other text. */
export function parseTime(value: string): number | undefined {
  const day = TIME.exec(value)?.[1];
  if (day === undefined) return undefined;
  const midnight = Date.parse(`${day}T00:00:00Z`);
  // The platform takes February 30 for March 1.
  if (Number.isNaN(midnight) || new Date(midnight).toISOString().slice(0, 10) !== day) return undefined;
  return Date.parse(value);
}

/** Schema of a point in time: a text in, wall-clock milliseconds out. */
export function time() {
  return z.string().transform((value, context) => {
    const ms = parseTime(value);
    if (ms !== undefined) return ms;
    context.addIssue({
      code: "custom",
      message: `expected a time such as 2026-01-31T12:00:00Z, got "${value.slice(0, 80)}"`,
    });
    return z.NEVER;
  });
}

/** Schema of `metadata`: what an author writes and what a server adds. */
export function metadataSchema(unknownKeys: UnknownKeys) {
  return mapping(
    {
      name: text({
        min: 1,
        max: 253,
        pattern: NAME,
        shape: "lower-case letters, digits, hyphens and dots with a letter or digit at both ends, such as llama-8b",
        missing: "every object needs a name of its own",
      }),
      namespace: optional(namespace()),
      labels: defaulting(labels(), {}),
      annotations: defaulting(stringMap(text({})), {}),
      uid: defaulting(text({}), ""),
      generation: defaulting(whole({ min: 0 }), 0),
      creationTimestamp: defaulting(time(), 0),
      deletionTimestamp: optional(time()),
      // Nothing here depends on these.
      deletionGracePeriodSeconds: z.unknown().optional(),
      finalizers: z.unknown().optional(),
      generateName: z.unknown().optional(),
      managedFields: z.unknown().optional(),
      ownerReferences: z.unknown().optional(),
      resourceVersion: z.unknown().optional(),
      selfLink: z.unknown().optional(),
    },
    unknownKeys,
    "write at least `metadata: {name: ...}`",
  );
}

/** @param defaultNamespace of objects that name none */
export function objectMeta(read: z.output<ReturnType<typeof metadataSchema>>, defaultNamespace: string): ObjectMeta {
  return {
    name: read.name,
    namespace: read.namespace ?? defaultNamespace,
    uid: read.uid,
    creationTimestamp: read.creationTimestamp,
    generation: read.generation,
    deleting: read.deletionTimestamp !== undefined,
    labels: read.labels,
    annotations: read.annotations,
  };
}
