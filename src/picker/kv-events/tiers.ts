/** A kind of memory that holds blocks, with the worth of a block in it. */
export interface Tier {
  /** In lower case. */
  readonly name: string;
  /** From 0 up; 1 = as good as the GPU. */
  readonly weight: number;
}

/** The most tiers that a configuration can name. */
export const MAX_NAMED_TIERS = 8;
/** Where engines name no tier. */
const USUAL = "gpu";
/** Names of engines for tiers that configurations call otherwise. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["cpu_pinned", "cpu"],
  ["cpu_tier1", "cpu"],
  ["cpu_tier2", "cpu"],
]);

/**
 * The tiers of KV blocks by number: the named ones, one for all others, whose blocks count in full as in the reference, and one for
 * blocks that Sluice only expects (scheduling 3.14).
 */
export class Tiers {
  readonly #numbers: ReadonlyMap<string, number>;
  /** By number. */
  readonly weights: readonly number[];
  /** The number of the tier for blocks that Sluice expects. */
  readonly speculative: number;
  readonly #other: number;

  /** @param named with different names, at most `MAX_NAMED_TIERS` */
  constructor(named: readonly Tier[]) {
    this.#numbers = new Map(named.map(({ name }, number) => [name, number]));
    this.#other = named.length;
    this.speculative = named.length + 1;
    this.weights = [...named.map(({ weight }) => weight), 1, 1];
  }

  /** Returns the number of a tier. @param name in lower case; "" = the engine names none */
  numberOf(name: string): number {
    const given = name === "" ? USUAL : name;
    return this.#numbers.get(given) ?? this.#numbers.get(ALIASES.get(given) ?? "") ?? this.#other;
  }
}
