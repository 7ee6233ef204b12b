import { byAge, type InferenceModelRewrite, objectId } from "./objects.ts";
import { TargetDraw } from "./target-draw.ts";

/** The rule that applies to a model name. */
export interface RewriteMatch {
  /** Name of the InferenceModelRewrite. */
  readonly rewrite: string;
  /** Undefined = the rule lists no targets: nothing is rewritten. */
  readonly draw: TargetDraw | undefined;
}

/**
 * The InferenceModelRewrites of one pool, as one rule per model name. A rule that names the model beats one that names none.
 * Then the older object wins, then the earlier rule of an object (api-resources 1.8). The owner of the table bounds the number
 * of objects.
 */
export class RewriteTable {
  readonly #objects = new Map<string, InferenceModelRewrite>();
  readonly #exact = new Map<string, RewriteMatch>();
  #generic: RewriteMatch | undefined;
  readonly #names = new Set<string>();
  /** Built at the next lookup: many objects that arrive at once cost one building. */
  #stale = false;

  /** @param model name in the request; "" where it has none */
  match(model: string): RewriteMatch | undefined {
    if (this.#stale) this.#build();
    return this.#exact.get(model) ?? this.#generic;
  }

  /** Whether a rule names this model, to match it or as a target. */
  names(model: string): boolean {
    if (this.#stale) this.#build();
    return this.#names.has(model);
  }

  /** The model names that a rule matches by name. */
  matched(): Iterable<string> {
    if (this.#stale) this.#build();
    return this.#exact.keys();
  }

  /** Adds an object or replaces the one with its namespace and name. */
  put(rewrite: InferenceModelRewrite): void {
    this.#objects.set(objectId(rewrite.meta), rewrite);
    this.#stale = true;
  }

  /** @param id `namespace/name`; an unknown one changes nothing */
  remove(id: string): void {
    if (this.#objects.delete(id)) this.#stale = true;
  }

  clear(): void {
    this.#objects.clear();
    this.#stale = true;
  }

  #build(): void {
    this.#stale = false;
    this.#exact.clear();
    this.#generic = undefined;
    this.#names.clear();
    const oldestFirst = [...this.#objects.values()].sort((a, b) => byAge(a.meta, b.meta));
    for (const { meta, rules } of oldestFirst)
      for (const { matches, targets } of rules) {
        const draw = targets.length === 0 ? undefined : new TargetDraw(targets, "uniform");
        const match: RewriteMatch = { rewrite: meta.name, draw };
        for (const { name } of targets) this.#names.add(name);
        for (const model of matches) this.#names.add(model);
        if (matches.length === 0) this.#generic ??= match;
        for (const model of matches) if (!this.#exact.has(model)) this.#exact.set(model, match);
      }
  }
}
