import { isObject, type Json, same } from "./object.ts";
import { fieldSchema, type Schema } from "./schema.ts";

/**
 * The fields of an object as paths of the API's field sets: `f:name` a field, `k:{...}` an item of a list by its keys,
 * `v:...` an item of a set. The elements of a path are joined by a newline.
 */
export type FieldPaths = Map<string, unknown>;

const SEPARATOR = "\n";

const METADATA: Schema = {
  type: "object",
  properties: {
    labels: { type: "object", additionalProperties: { type: "string" } },
    annotations: { type: "object", additionalProperties: { type: "string" } },
    finalizers: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
    ownerReferences: {
      type: "array",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["uid"],
      items: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    },
  },
};

/** What of the metadata has owners. */
const OWNED_METADATA = Object.keys(METADATA.properties!);

/** The schema of a whole object, its metadata included. */
export function withMetadata(schema: Schema): Schema {
  return { ...schema, properties: { ...schema.properties, metadata: METADATA } };
}

/** What of an object has owners: the status only, or all but the status and what the server itself writes. */
export function ownable(object: Json, status: boolean, hasStatus: boolean): Json {
  if (status) return object["status"] === undefined ? {} : { status: object["status"] };
  const { apiVersion: _, kind: __, metadata, ...rest } = object;
  if (hasStatus) delete rest["status"];
  const owned = Object.entries(metadata as Json).filter(([name]) => OWNED_METADATA.includes(name));
  return owned.length === 0 ? rest : { ...rest, metadata: Object.fromEntries(owned) };
}

/** All leaves with their values; the items of lists also as themselves. */
export function pathsOf(schema: Schema, value: unknown): FieldPaths {
  const paths: FieldPaths = new Map();
  collect(schema, value, "", paths);
  return paths;
}

function collect(schema: Schema | undefined, value: unknown, path: string, paths: FieldPaths): void {
  const down = (element: string): string => (path === "" ? element : `${path}${SEPARATOR}${element}`);
  const list = schema?.["x-kubernetes-list-type"];
  if (isObject(value) && schema?.["x-kubernetes-map-type"] !== "atomic") {
    const names = Object.keys(value);
    if (names.length === 0 && path !== "") paths.set(path, value);
    for (const name of names) collect(fieldSchema(schema, name), value[name], down(`f:${name}`), paths);
  } else if (Array.isArray(value) && list === "map") {
    for (const item of value) {
      const at = down(`k:${JSON.stringify(keysOf(schema!, item))}`);
      paths.set(at, undefined);
      collect(schema!.items, item, at, paths);
    }
  } else if (Array.isArray(value) && list === "set") {
    for (const item of value) paths.set(down(`v:${JSON.stringify(item)}`), undefined);
  } else {
    paths.set(path, value);
  }
}

/** What tells an item of a list from the others. */
function keysOf(schema: Schema, item: unknown): Json {
  const keys = [...(schema["x-kubernetes-list-map-keys"] ?? [])].sort();
  return Object.fromEntries(keys.map((key) => [key, isObject(item) ? item[key] : undefined]));
}

/** Lays one value over another: fields one by one, items of lists by their keys. */
export function overlay(schema: Schema | undefined, base: unknown, top: unknown): unknown {
  const list = schema?.["x-kubernetes-list-type"];
  if (isObject(base) && isObject(top) && schema?.["x-kubernetes-map-type"] !== "atomic") {
    const merged: Json = { ...base };
    for (const [name, value] of Object.entries(top))
      merged[name] = overlay(fieldSchema(schema, name), base[name], value);
    return merged;
  }
  if (Array.isArray(base) && Array.isArray(top) && list === "map") {
    const merged = [...base];
    for (const item of top) {
      const at = merged.findIndex((other) => same(keysOf(schema!, other), keysOf(schema!, item)));
      if (at < 0) merged.push(item);
      else merged[at] = overlay(schema!.items, merged[at], item);
    }
    return merged;
  }
  if (Array.isArray(base) && Array.isArray(top) && list === "set") {
    return [...base, ...top.filter((item) => !base.some((other) => same(item, other)))];
  }
  return top;
}

/** Without what a path leads to; what becomes empty by that goes, too. */
export function without(value: unknown, path: string): unknown {
  const cut = path.indexOf(SEPARATOR);
  const element = cut < 0 ? path : path.slice(0, cut);
  const rest = cut < 0 ? undefined : path.slice(cut + 1);
  const word = element.slice(2);
  if (element.startsWith("f:") && isObject(value)) {
    const { [word]: inner, ...others } = value;
    const left = rest === undefined ? undefined : without(inner, rest);
    const all = left === undefined ? others : { ...value, [word]: left };
    return Object.keys(all).length === 0 ? undefined : all;
  }
  if (!Array.isArray(value)) return value;
  const wanted = JSON.parse(word) as unknown;
  const left = value.flatMap((item) => {
    const named = element.startsWith("v:")
      ? same(item, wanted)
      : isObject(item) && Object.entries(wanted as Json).every(([key, own]) => same(item[key], own));
    if (!named) return [item];
    const inner = rest === undefined ? undefined : without(item, rest);
    return inner === undefined ? [] : [inner];
  });
  return left.length === 0 ? undefined : left;
}

/** `.spec.ports[port=80].name`, as conflicts name a field. */
export function spoken(path: string): string {
  return path
    .split(SEPARATOR)
    .map((element) => {
      const word = element.slice(2);
      if (element.startsWith("f:")) return `.${word}`;
      if (element.startsWith("v:")) return `[=${word}]`;
      return `[${Object.entries(JSON.parse(word) as Json)
        .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
        .join(",")}]`;
    })
    .join("");
}

/** Paths as the tree of `fieldsV1`. */
export function fieldsV1(paths: Iterable<string>): Json {
  const tree: Json = {};
  for (const path of paths) {
    let node = tree;
    for (const element of path.split(SEPARATOR)) {
      node[element] ??= {};
      node = node[element] as Json;
    }
    node["."] = {};
  }
  return simplified(tree);
}

/** A leaf is empty; only what has children says that it is itself owned. */
function simplified(node: Json): Json {
  const names = Object.keys(node);
  if (names.length === 1 && names[0] === ".") return {};
  return Object.fromEntries(Object.entries(node).map(([name, inner]) => [name, simplified(inner as Json)]));
}

/** The paths in a tree of `fieldsV1`. */
export function pathsIn(tree: Json, path = ""): string[] {
  const names = Object.keys(tree);
  if (names.length === 0) return path === "" ? [] : [path];
  return names.flatMap((name) =>
    name === "." ? [path] : pathsIn(tree[name] as Json, path === "" ? name : `${path}${SEPARATOR}${name}`),
  );
}
