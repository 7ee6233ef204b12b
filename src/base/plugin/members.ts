import type { Random } from "../clock/random.ts";
import type { DecisionContext } from "./candidates.ts";

export interface FilterContext extends DecisionContext {
  readonly random: Random;
  /** Set `keep[i] = 0` to drop candidate i; arrives all ones. */
  readonly keep: Uint8Array;
}

export interface Filter {
  filter(context: FilterContext): void;
  /**
   * What clients are told when it leaves no candidate. With it a request for which there is no endpoint at all is answered
   * the same, 429, as v0.3 did; without it the filter is named, and no endpoints are a 503.
   */
  readonly refusal?: string;
}

export interface ScoreContext extends DecisionContext {
  /** Write 0..1 per candidate; arrives all zeros; values outside are clamped and NaN counts as 0. */
  readonly out: Float64Array;
}

/** A pure function of the request, the candidates and the producers' columns. */
export interface Scorer {
  score(context: ScoreContext): void;
}

export interface PickContext extends DecisionContext {
  /** Weighted sum per candidate. */
  readonly totals: Float64Array;
  readonly random: Random;
  /** Arrives as 0..count-1; leave the candidates' indices in it in order of preference, best first. */
  readonly order: Uint32Array;
}

export interface Picker {
  /** How many endpoints are offered to the proxy, from 1 up. */
  readonly maxNumOfEndpoints: number;
  /** It draws by chance even where totals differ. */
  readonly byChance?: boolean;
  /** What the next pick depends on besides its arguments and `random`: kept in full records and set for a replay. */
  memory?: number;
  /** Orders all candidates and returns how many share the first place. */
  pick(context: PickContext): number;
}
