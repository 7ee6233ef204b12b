import type { z } from "zod";
import type { Path } from "./document.ts";

type Schema = z.core.$ZodTypes;

/**
 * The keys that a schema knows at a place: those of the object found by walking down `path`, of every alternative of a
 * union on the way. Empty where the schema can't be seen through.
 */
export function knownKeys(schema: z.core.$ZodType, path: Path): string[] {
  let at = [schema];
  for (const step of path) at = at.flatMap(unwrap).flatMap((outer) => child(outer, step));
  const keys = at
    .flatMap(unwrap)
    .flatMap((found) => (found._zod.def.type === "object" ? Object.keys(found._zod.def.shape) : []));
  return [...new Set(keys)];
}

/** The schemas of a value once defaults, transforms, alternatives and the like are looked through. */
function unwrap(schema: z.core.$ZodType): Schema[] {
  const known = schema as Schema;
  const def = known._zod.def;
  switch (def.type) {
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "nonoptional":
    case "readonly":
    case "catch":
      return unwrap(def.innerType);
    case "pipe":
      // A preprocessing step comes first and knows nothing; what it hands on does.
      return unwrap((def.in as Schema)._zod.def.type === "transform" ? def.out : def.in);
    case "lazy":
      return unwrap(def.getter());
    case "union":
      return def.options.flatMap(unwrap);
    case "intersection":
      return [...unwrap(def.left), ...unwrap(def.right)];
    default:
      return [known];
  }
}

function child(schema: Schema, step: string | number): z.core.$ZodType[] {
  const def = schema._zod.def;
  switch (def.type) {
    case "object": {
      const inner = def.shape[step];
      return inner === undefined ? [] : [inner];
    }
    case "array":
      return [def.element];
    case "tuple": {
      const inner = def.items[Number(step)] ?? def.rest;
      return inner === null || inner === undefined ? [] : [inner];
    }
    case "record":
      return [def.valueType];
    default:
      return [];
  }
}
