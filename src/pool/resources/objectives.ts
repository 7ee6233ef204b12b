import { SluiceError } from "../../base/inference/errors.ts";

/** The most objectives a table holds. */
const MAX_OBJECTIVES = 1_000;

/** The content of one InferenceObjective. */
export interface Objective {
  readonly name: string;
  /** Below 0 = sheddable. */
  readonly priority: number;
}

/** The InferenceObjectives of the pool, by name (epp-protocol 10.7). */
export class ObjectiveTable {
  readonly #priorities = new Map<string, number>();

  /**
   * Adds an objective, or replaces the priority of a known one.
   * @param priority a whole number; below 0 = sheddable
   * @throws SluiceError RESOURCE_LIMIT beyond 1,000 names
   */
  add(name: string, priority: number): void {
    if (this.#priorities.size >= MAX_OBJECTIVES && !this.#priorities.has(name))
      throw new SluiceError("RESOURCE_LIMIT", `objective ${name} is over the limit of ${MAX_OBJECTIVES} objectives`);
    this.#priorities.set(name, priority);
  }

  /** Takes the content of another table. */
  replaceBy(other: ObjectiveTable): void {
    this.#priorities.clear();
    for (const [name, priority] of other.#priorities) this.#priorities.set(name, priority);
  }

  /** The priorities of all objectives; one may come several times. */
  priorities(): Iterable<number> {
    return this.#priorities.values();
  }

  has(name: string): boolean {
    return this.#priorities.has(name);
  }

  /** The priority of an objective; 0 for an unknown name. */
  lookup(name: string): number {
    return this.#priorities.get(name) ?? 0;
  }
}

/**
 * Reads the value of one `--objective` flag, `NAME=PRIORITY`.
 * @throws SluiceError FLAG_VALUE
 */
export function parseObjective(text: string): Objective {
  const match = /^([^\s=]{1,253})=([+-]?\d{1,15})$/.exec(text.trim());
  if (match === null)
    throw new SluiceError(
      "FLAG_VALUE",
      `--objective ${JSON.stringify(text.slice(0, 300))} is not NAME=PRIORITY with a whole number; ` +
        "write for example --objective interactive=10 or --objective batch=-1 (a saturated pool refuses priorities below 0)",
    );
  // Adding 0 turns the -0 of "-0" into 0.
  return { name: match[1]!, priority: Number(match[2]) + 0 };
}

/**
 * The table that repeated `--objective NAME=PRIORITY` flags describe.
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT when one name gets two priorities, RESOURCE_LIMIT
 */
export function objectivesFromFlags(values: Iterable<string>): ObjectiveTable {
  const table = new ObjectiveTable();
  for (const value of values) {
    const { name, priority } = parseObjective(value);
    if (table.has(name) && table.lookup(name) !== priority)
      throw new SluiceError(
        "FLAG_CONFLICT",
        `--objective gives ${name} both priority ${table.lookup(name)} and ${priority}; keep one`,
      );
    table.add(name, priority);
  }
  return table;
}
