import { type Alias, isAlias, isCollection, isMap, isScalar, isSeq, type Node, type YAMLMap } from "yaml";
import type { SluiceError } from "../inference/errors.ts";
import type { Path } from "./document.ts";

/** Makes the error for a problem at an offset of the text. */
export type SyntaxFailure = (offset: number, problem: string) => SluiceError;

/** How many values aliases may stand for beyond what is written: enough for people, too few for a bomb. */
const MAX_ALIASED = 100_000;

/**
 * Checks what the YAML grammar allows and a configuration must not have: duplicate keys, keys that aren't plain values,
 * the key `__proto__`, aliases without an anchor, to themselves or beyond 100,000 values in all, nesting beyond `maxDepth`.
 * @returns the offset in the text at which the part at a path begins, as `Document.positionOf` describes it
 * @throws what `failure` makes
 */
export function checkTree(top: Node | null, maxDepth: number, failure: SyntaxFailure): (path: Path) => number {
  const anchors = new Map<string, Node>();
  const sizes = new Map<Node, number>();
  const targets = new Map<Alias, Node>();
  let aliased = 0;

  function check(node: Node, depth: number): number {
    if (depth > maxDepth) throw failure(start(node), `nested more than ${maxDepth} levels deep`);
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined) throw failure(start(node), `\`*${node.source}\` has no \`&${node.source}\` above it`);
      const size = sizes.get(target);
      if (size === undefined) throw failure(start(node), `\`*${node.source}\` contains itself`);
      aliased += size;
      if (aliased > MAX_ALIASED)
        throw failure(start(node), `aliases repeat more than ${MAX_ALIASED} values; write the values out`);
      targets.set(node, target);
      return size;
    }
    if (node.anchor !== undefined) anchors.set(node.anchor, node);
    let size = 1;
    if (isMap(node)) {
      const seen = new Set<string>();
      for (const { key, value } of node.items) {
        const name = keyName(key);
        if (name === undefined) throw failure(start(key as Node), keyProblem(node, key));
        if (seen.has(name)) throw failure(start(key as Node), `key \`${name}\` appears twice in this mapping`);
        seen.add(name);
        // Objects in JavaScript lose it, and what stands below it, without a word.
        if (name === "__proto__")
          throw failure(start(key as Node), "the key `__proto__` cannot be used; take another name");
        if (name === "<<" && !isMergeable(value as Node | null))
          throw failure(start(key as Node), "`<<` takes a mapping, an alias of one, or a list of such aliases");
        if (value !== null) size += check(value as Node, depth + 1);
      }
    } else if (isSeq(node)) for (const item of node.items) size += check(item as Node, depth + 1);
    sizes.set(node, size);
    return size;
  }

  /** Only what stands above is known yet, which is all an alias can mean. */
  function isMergeable(value: Node | null): boolean {
    const isMapping = (node: unknown): boolean => isMap(isAlias(node) ? anchors.get(node.source) : node);
    return isSeq(value) ? value.items.every(isMapping) : isMapping(value);
  }

  if (top !== null) check(top, 1);

  return (path) => {
    let node: Node | undefined = top ?? undefined;
    let offset = start(node);
    for (const step of path) {
      if (node !== undefined && isAlias(node)) node = targets.get(node);
      if (node === undefined || !isCollection(node)) break;
      if (isMap(node)) {
        const pair = node.items.find((item) => keyName(item.key) === String(step));
        if (pair === undefined) break;
        offset = start(pair.key as Node);
        node = (pair.value as Node | null) ?? undefined;
      } else {
        const item = node.items[Number(step)] as Node | undefined;
        if (item === undefined) break;
        offset = start(item);
        node = item;
      }
    }
    return offset;
  };
}

function start(node: Node | null | undefined): number {
  return node?.range?.[0] ?? 0;
}

/** Why a key has no name. To YAML the `{{ ... }}` of a template is a mapping that is the only key of another. */
function keyProblem({ flow, items }: YAMLMap, key: unknown): string {
  const isTemplate =
    flow && items.length === 1 && isMap(key) && key.flow && key.items.every(({ value }) => value === null);
  return isTemplate
    ? "`{{ ... }}` is for a template engine to fill in, and none has; put it in quotes where it is meant as a text"
    : "a key must be a plain value such as a word";
}

/** The name a key gets as an object's property; undefined for keys that have none. */
function keyName(key: unknown): string | undefined {
  if (!isScalar(key) || key.value === null) return undefined;
  // The library turns a merge key into a symbol.
  return typeof key.value === "symbol" ? key.value.description : String(key.value);
}
