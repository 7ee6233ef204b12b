import { SeededRandom } from "../../src/base/clock/random.ts";
import { Mutator } from "./mutator.ts";
import type { FuzzTarget } from "./target.ts";

/** Inputs that are built upon. */
export const MAX_POOL = 4000;
/** Kinds of outcomes that are told apart. */
export const MAX_OUTCOMES = 20_000;
/** Tries to make a failing input smaller. */
const SHRINKING = 2000;

/** An input that the code under test can't cope with. */
export interface Failure {
  readonly input: Buffer;
  readonly message: string;
}

/** Gives one input after the other to a target, building upon those that made something new happen. */
export class Fuzzer {
  readonly #target: FuzzTarget;
  readonly #mutator: Mutator;
  readonly #random: SeededRandom;
  readonly #pool: Buffer[];
  readonly #outcomes = new Set<string>();
  runs = 0;

  /** @param seeds what to begin with; an empty input is among them in any case */
  constructor(target: FuzzTarget, seeds: readonly Buffer[], seed: number) {
    this.#target = target;
    this.#random = new SeededRandom(seed);
    this.#mutator = new Mutator(this.#random, target.tokens);
    this.#pool = [Buffer.alloc(0), ...seeds];
  }

  get outcomes(): number {
    return this.#outcomes.size;
  }

  get pool(): number {
    return this.#pool.length;
  }

  /** The seeds themselves. */
  first(): Failure | undefined {
    for (const input of [...this.#pool]) {
      const failure = this.try(input);
      if (failure !== undefined) return failure;
    }
    return undefined;
  }

  /** The next input, not yet tried. */
  make(): Buffer {
    return this.#mutator.next(this.#pool);
  }

  /** Tries one input. */
  try(input: Buffer): Failure | undefined {
    this.runs++;
    let outcome: string;
    try {
      outcome = this.#target.run(input);
    } catch (error) {
      return { input, message: describe(error) };
    }
    if (this.#outcomes.has(outcome) || this.#outcomes.size >= MAX_OUTCOMES) return undefined;
    this.#outcomes.add(outcome);
    if (this.#pool.length < MAX_POOL) this.#pool.push(Buffer.from(input));
    else this.#pool[this.#random.below(MAX_POOL)] = Buffer.from(input);
    return undefined;
  }

  /** As `try`, for a failing input: a smaller one that fails as well, where there is one. */
  shrink(failure: Failure): Failure {
    let best = failure;
    let size = best.input.length >> 1;
    for (let tries = 0; size > 0 && tries < SHRINKING; size >>= 1) {
      for (let at = 0; at + size <= best.input.length && tries < SHRINKING; tries++) {
        const input = Buffer.concat([best.input.subarray(0, at), best.input.subarray(at + size)]);
        const smaller = this.try(input);
        if (smaller === undefined) at += size;
        else best = smaller;
      }
    }
    return best;
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
