import { copyOf, isObject, type Json, same } from "./object.ts";
import { Refusal } from "./refusal.ts";
import { fieldSchema, type Schema } from "./schema.ts";

/** A merge patch (RFC 7396): null removes, objects are merged, everything else replaces. */
export function mergePatch(value: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged: Json = isObject(value) ? { ...value } : {};
  for (const [name, change] of Object.entries(patch)) {
    if (change === null) delete merged[name];
    else merged[name] = mergePatch(merged[name], change);
  }
  return merged;
}

/** A strategic merge patch: a merge patch in which the items of lists with keys are merged by them. */
export function strategicPatch(schema: Schema | undefined, value: unknown, patch: unknown): unknown {
  const keys = schema?.["x-kubernetes-list-map-keys"];
  if (Array.isArray(patch) && keys !== undefined) {
    const merged = Array.isArray(value) ? [...value] : [];
    for (const item of patch) {
      const { $patch: directive, ...change } = item as Json;
      const at = merged.findIndex((other) => keys.every((key) => same((other as Json)[key], change[key])));
      if (directive === "delete") merged.splice(at, at < 0 ? 0 : 1);
      else if (at < 0) merged.push(change);
      else merged[at] = strategicPatch(schema?.items, merged[at], change);
    }
    return merged;
  }
  if (!isObject(patch)) return patch;
  const merged: Json = isObject(value) && patch["$patch"] !== "replace" ? { ...value } : {};
  for (const [name, change] of Object.entries(patch)) {
    // What orders the items of lists, or keeps fields, is beyond what is needed here.
    if (name.startsWith("$")) continue;
    if (change === null) delete merged[name];
    else merged[name] = strategicPatch(fieldSchema(schema, name), merged[name], change);
  }
  return merged;
}

/** A JSON patch (RFC 6902). @throws Refusal 422 for a test that fails or a path that leads nowhere */
export function jsonPatch(value: unknown, patch: unknown): unknown {
  if (!Array.isArray(patch)) throw new Refusal(400, "a JSON patch is a list of operations");
  const root = { "": copyOf(value) } as Json;
  for (const { op, path, value: given, from } of patch as {
    op: string;
    path: string;
    value?: unknown;
    from?: string;
  }[]) {
    if (op === "add" || op === "replace") put(root, path, given, op === "add");
    else if (op === "remove") take(root, path);
    else if (op === "copy") put(root, path, copyOf(read(root, from!)), true);
    else if (op === "move") put(root, path, take(root, from!), true);
    else if (op !== "test" || !same(read(root, path), given)) throw nowhere(`testing value ${path} failed`);
  }
  return root[""];
}

function nowhere(why: string): Refusal {
  return new Refusal(422, `the server rejected our request due to an error in our request: ${why}`);
}

/** The object or list that a path ends in, and its place there. */
function place(root: Json, path: string): readonly [Json | unknown[], string] {
  const parts = path.split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  let node: unknown = root;
  for (const part of parts.slice(0, -1))
    node = isObject(node) ? node[part] : Array.isArray(node) ? node[Number(part)] : undefined;
  if (!isObject(node) && !Array.isArray(node)) throw nowhere(`doc is missing path: ${path}`);
  return [node, parts.at(-1)!];
}

function read(root: Json, path: string): unknown {
  const [node, name] = place(root, path);
  return Array.isArray(node) ? node[Number(name)] : node[name];
}

function put(root: Json, path: string, value: unknown, add: boolean): void {
  const [node, name] = place(root, path);
  if (!add && (Array.isArray(node) ? node[Number(name)] : node[name]) === undefined)
    throw nowhere(`missing path: ${path}`);
  if (!Array.isArray(node)) node[name] = value;
  else node.splice(name === "-" ? node.length : Number(name), add ? 0 : 1, value);
}

function take(root: Json, path: string): unknown {
  const [node, name] = place(root, path);
  const value = read(root, path);
  if (value === undefined) throw nowhere(`Unable to remove nonexistent key: ${path}`);
  if (Array.isArray(node)) node.splice(Number(name), 1);
  else delete node[name];
  return value;
}
