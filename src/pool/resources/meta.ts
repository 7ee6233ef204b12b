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
import { time } from "./time.ts";

/** Names of custom resources are DNS subdomains. */
const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

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
