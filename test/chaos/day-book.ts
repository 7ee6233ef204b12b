import { type Faults, type Outcome, verdict } from "./day-verdict.ts";

/** What became of all requests of a day. */
export interface Accounts {
  /** How many outcomes each cause explains. */
  readonly tally: ReadonlyMap<string, number>;
  readonly unexplained: readonly Outcome[];
}

/** Counts what becomes of requests. An outcome that may need an explanation is kept until all faults are known. */
export class DayBook {
  /** Answers 200 by caller, the tokens of their usage, and answers 200 by model server. */
  readonly admitted = new Map<string, number>();
  readonly tokens = new Map<string, number>();
  readonly served = new Map<string, number>();
  #answered = 0;
  readonly #open: Outcome[] = [];
  readonly #faults: Faults;
  readonly #ending: ReadonlySet<string>;

  /** @param faults those of the moment @param ending callers whose keys end: even a good answer to these may be wrong */
  constructor(faults: Faults, ending: ReadonlySet<string>) {
    this.#faults = faults;
    this.#ending = ending;
  }

  /** @param usage tokens; 0 = unknown */
  note(outcome: Outcome, usage: number): void {
    const { caller, status, headers } = outcome;
    if (status === 200) {
      raise(this.admitted, caller, 1);
      raise(this.tokens, caller, usage);
      raise(this.served, String(headers["x-inference-pod"]), 1);
    }
    if (!this.#ending.has(caller) && verdict(outcome, this.#faults) === "answered") this.#answered++;
    else this.#open.push(outcome);
  }

  accounts(): Accounts {
    const tally = new Map([["answered", this.#answered]]);
    const unexplained: Outcome[] = [];
    for (const outcome of this.#open) {
      const cause = verdict(outcome, this.#faults);
      if (cause === undefined) unexplained.push(outcome);
      else raise(tally, cause, 1);
    }
    return { tally, unexplained };
  }
}

function raise(counts: Map<string, number>, key: string, by: number): void {
  counts.set(key, (counts.get(key) ?? 0) + by);
}
