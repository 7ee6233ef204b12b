import type { Admitter, Filter, Picker, Producer, ProfileHandler, Scorer, Screener } from "../../base/plugin/kinds.ts";
import type { DataScope } from "./scope.ts";

/** A plugin instance in a plan. */
export interface ProfileMember<P> {
  /** Instance name. */
  readonly name: string;
  readonly type: string;
  readonly plugin: P;
  readonly scope: DataScope;
}

export interface WeightedScorer extends ProfileMember<Scorer> {
  /** Finite, from 0 up; only ratios count, and 0 means measure only. */
  readonly weight: number;
}

/** One way to choose among candidates. */
export interface Profile {
  readonly name: string;
  /** Each sees what the ones before it left. */
  readonly filters: readonly ProfileMember<Filter>[];
  readonly scorers: readonly WeightedScorer[];
  readonly picker: ProfileMember<Picker>;
}

/** Places of the columns that the scheduler itself looks at; `NO_WRITER` where nobody writes them. */
export interface PlanFigures {
  readonly matchedBlocks: number;
  readonly totalBlocks: number;
  readonly blockTokens: number;
  readonly uncachedTokens: number;
}

/** What one decision runs, in this order (scheduling 3.3, 3.6): made by `buildPlan`. */
export interface SchedulingPlan {
  /** Fingerprint of the configuration it was made of; "" where nobody gave one. */
  readonly configHash: string;
  readonly screeners: readonly ProfileMember<Screener>[];
  /** In the order of their dependencies. */
  readonly producers: readonly ProfileMember<Producer>[];
  readonly admitters: readonly ProfileMember<Admitter>[];
  /** At least one. */
  readonly profiles: readonly Profile[];
  /** Undefined: the only profile runs once. */
  readonly handler: ProfileMember<ProfileHandler> | undefined;
  /** What each column holds, by place: `producer/key`. */
  readonly columns: readonly string[];
  /** The same of request attributes. */
  readonly attributes: readonly string[];
  readonly figures: PlanFigures;
  /** Whether the tokens that a request adds to its endpoint stay there until the end of the answer. */
  readonly keepsTokens: boolean;
  /** The producer of prefix matches, if there is one. */
  readonly prefixProducer: ProfileMember<Producer> | undefined;
  /** Request headers that decisions depend on, in lower case: what full records keep. */
  readonly headers: readonly string[];
}
