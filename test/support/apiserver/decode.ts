import { copyOf, isObject, type Json } from "./object.ts";
import { fieldSchema, type Schema } from "./schema.ts";

/**
 * Drops from an object, in place, the fields that its schema does not know.
 * @returns their paths
 */
export function prune(schema: Schema, object: Json): string[] {
  const dropped: string[] = [];
  // What every object has needs no schema.
  const { apiVersion, kind, metadata, ...rest } = object;
  pruneIn(schema, rest, "", dropped);
  for (const name of Object.keys(object)) if (!(name in rest)) delete object[name];
  Object.assign(object, rest, {
    ...(apiVersion === undefined ? {} : { apiVersion }),
    ...(kind === undefined ? {} : { kind }),
    metadata,
  });
  return dropped;
}

function pruneIn(schema: Schema, value: unknown, path: string, dropped: string[]): void {
  if (Array.isArray(value)) {
    if (schema.items === undefined) return;
    for (const [at, item] of value.entries()) pruneIn(schema.items, item, `${path}[${at}]`, dropped);
  } else if (isObject(value)) {
    for (const name of Object.keys(value)) {
      const inner = path === "" ? name : `${path}.${name}`;
      const known = fieldSchema(schema, name);
      if (known !== undefined) pruneIn(known, value[name], inner, dropped);
      else if (!schema["x-kubernetes-preserve-unknown-fields"] && schema.additionalProperties !== true) {
        dropped.push(inner);
        delete value[name];
      }
    }
  }
}

/** Drops nulls of fields that may not be null, in place. */
export function dropNulls(schema: Schema, value: unknown): void {
  if (Array.isArray(value)) {
    if (schema.items !== undefined) for (const item of value) dropNulls(schema.items, item);
  } else if (isObject(value)) {
    for (const name of Object.keys(value)) {
      const known = fieldSchema(schema, name);
      if (known === undefined) continue;
      if (value[name] === null && known.nullable !== true) delete value[name];
      else dropNulls(known, value[name]);
    }
  }
}

/** Fills in defaults, in place, from the outside to the inside, and only in objects that are there. */
export function fillDefaults(schema: Schema, value: unknown): void {
  if (Array.isArray(value)) {
    if (schema.items !== undefined) for (const item of value) fillDefaults(schema.items, item);
  } else if (isObject(value)) {
    for (const [name, known] of Object.entries(schema.properties ?? {})) {
      if (value[name] === undefined && known.default !== undefined) value[name] = copyOf(known.default);
    }
    for (const name of Object.keys(value)) {
      const known = fieldSchema(schema, name);
      if (known !== undefined) fillDefaults(known, value[name]);
    }
  }
}
