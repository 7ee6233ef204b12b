import type { z } from "zod";
import { formatPath, type Path } from "../../base/document/document.ts";
import { nearest } from "../../base/document/nearest.ts";
import { check, isUnknownKey, knownKeys, type Violation } from "../../base/document/validate.ts";

/** A document that fits its schema, because its wrong parts were renamed, filled in or removed. */
export interface Repaired<T> {
  readonly output: T;
  /** Returns the place in the file of a place in the repaired document. */
  original(path: Path): Path;
  /** Whether a part below a place of the repaired document was removed. */
  isCut(path: Path): boolean;
  /** Texts of removed list entries, such as names: a reference to one of these is no error. */
  readonly lost: ReadonlySet<string>;
}

/** The substitutes for missing or wrong values, by key. @param n counts the substitutes of a document */
export type Substitutes = Readonly<Record<string, (n: number) => unknown>>;

/** The most rounds of repair of a document: a removed key makes its entry wrong, and so on outwards. */
const ROUNDS = 10;
const HOLE = Symbol("left out");

type Container = Record<string | number, unknown>;

/**
 * Checks a document and repairs a copy of it as far as possible, so that a further check may find other violations. An unknown
 * key that resembles a missing one replaces it. `substitutes` supplies missing values. Any other wrong part is removed, with
 * its list entry where the entry needs it.
 * @param known violations that were found before; the parts at their places are removed
 * @param into receives the violations, by place in the file
 * @returns undefined when nothing is left to check
 */
export function checkAndRepair<S extends z.ZodType>(
  value: unknown,
  schema: S,
  known: readonly Violation[],
  substitutes: Substitutes,
  into: Violation[],
): Repaired<z.output<S>> | undefined {
  const repair = new Repair(structuredClone(value), schema, substitutes);
  let wrong: readonly Violation[] = known;
  if (wrong.length > 0 && !repair.mend(wrong)) wrong = [];
  const seen = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    const found: Violation[] = [];
    const checked = check(repair.value, schema, [], found);
    for (const { path, problem } of found) {
      const there = repair.original(path);
      const told = `${formatPath(there)} ${problem}`;
      if (!repair.isCut(path) && !seen.has(told)) into.push({ path: there, problem });
      seen.add(told);
    }
    if (checked !== undefined)
      return {
        output: checked.output,
        original: (path) => repair.original(path),
        isCut: (path) => repair.isCut(path),
        lost: repair.lost,
      };
    if (!repair.mend(found)) return undefined;
  }
  return undefined;
}

class Repair {
  readonly value: unknown;
  readonly lost = new Set<string>();
  readonly #schema: z.ZodType;
  readonly #substitutes: Substitutes;
  /** For changed containers: the key in the file for each key that differs there. */
  readonly #keys = new WeakMap<object, Map<string | number, string | number>>();
  /** The keys of containers that have a substitute. */
  readonly #mended = new WeakMap<object, Set<string>>();
  #count = 0;
  /** Containers with removed parts. */
  readonly #cut = new WeakSet<object>();

  constructor(value: unknown, schema: z.ZodType, substitutes: Substitutes) {
    this.value = value;
    this.#schema = schema;
    this.#substitutes = substitutes;
  }

  original(path: Path): Path {
    let at = this.value;
    return path.map((key) => {
      const there = isContainer(at) ? (this.#keys.get(at)?.get(key) ?? key) : key;
      at = isContainer(at) ? at[key] : undefined;
      return there;
    });
  }

  isCut(path: Path): boolean {
    const at = this.#containers(path).at(path.length);
    const parent = this.#containers(path).at(path.length - 1);
    const isGone = path.length > 0 && parent !== undefined && at === undefined && !(path.at(-1)! in parent);
    return (at !== undefined && this.#cut.has(at)) || (isGone && this.#cut.has(parent));
  }

  /** Repairs the violations of the present value; false when nothing is left of it. */
  mend(violations: readonly Violation[]): boolean {
    // One renamed key may solve all other violations.
    if (violations.filter(({ path, problem }) => isUnknownKey(problem) && this.#renamed(path)).length > 0) return true;
    for (const { path } of violations) {
      if (path.length === 0) return false;
      const parent = this.#containers(path)[path.length - 1];
      const key = path.at(-1)!;
      if (parent !== undefined && this.#substituted(parent, key)) continue;
      if (parent !== undefined && key in parent) this.#leaveOut(parent, key);
      else if (!this.#leaveOutEntry(path)) return false;
    }
    this.#close(this.value);
    return true;
  }

  /** Returns the containers along a path, the whole value first; fewer where the path leads out of the value. */
  #containers(path: Path): Container[] {
    const found: Container[] = [];
    let at = this.value;
    for (const key of [...path, ""]) {
      if (!isContainer(at)) break;
      found.push(at);
      at = at[key];
    }
    return found;
  }

  #renamed(path: Path): boolean {
    const parent = this.#containers(path)[path.length - 1];
    const key = path.at(-1)!;
    if (parent === undefined || !(key in parent)) return false;
    const free = knownKeys(this.#schema, path.slice(0, -1)).filter((name) => !(name in parent));
    const meant = nearest(String(key), free);
    if (meant === undefined) return false;
    parent[meant] = parent[key];
    delete parent[key];
    this.#note(parent, meant, key);
    return true;
  }

  #substituted(parent: Container, key: string | number): boolean {
    if (typeof key === "number" || !Object.hasOwn(this.#substitutes, key) || this.#mended.get(parent)?.has(key))
      return false;
    if (typeof parent[key] === "string") this.lost.add(parent[key]);
    parent[key] = this.#substitutes[key]!(this.#count++);
    // When the substitute is wrong too, the next round removes it.
    this.#mended.set(parent, new Set(this.#mended.get(parent)).add(key));
    return true;
  }

  #leaveOut(parent: Container, key: string | number): void {
    if (isContainer(parent[key]) || typeof key === "number")
      for (const text of Object.values(isContainer(parent[key]) ? parent[key] : [parent[key]]))
        if (typeof text === "string") this.lost.add(text);
    if (typeof parent[key] === "string") this.lost.add(parent[key]);
    this.#cut.add(parent);
    if (Array.isArray(parent)) parent[Number(key)] = HOLE;
    else delete parent[key];
  }

  /** Removes the innermost list entry, or key, around a missing value at a path. */
  #leaveOutEntry(path: Path): boolean {
    const containers = this.#containers(path);
    // The last container is the one with the missing value.
    const at = containers.length - 2;
    const outer = containers[at];
    const key = path[at];
    if (outer === undefined || key === undefined) return false;
    if (outer[key] !== undefined) this.#leaveOut(outer, key);
    return true;
  }

  /** Closes the holes in lists, and keeps the former places of the entries after them. */
  #close(at: unknown): void {
    if (!isContainer(at)) return;
    if (Array.isArray(at) && at.includes(HOLE)) {
      const before = this.#keys.get(at) ?? new Map();
      const left = at.flatMap((entry, i) => (entry === HOLE ? [] : [{ entry, from: before.get(i) ?? i }]));
      at.splice(0, at.length, ...left.map(({ entry }) => entry));
      this.#keys.set(at, new Map(left.map(({ from }, i) => [i, from])));
    }
    for (const inner of Object.values(at)) this.#close(inner);
  }

  #note(container: object, key: string | number, from: string | number): void {
    const keys = this.#keys.get(container) ?? new Map();
    keys.set(key, from);
    this.#keys.set(container, keys);
  }
}

function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}
