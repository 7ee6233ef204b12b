import type { ColumnKey } from "../plugin/keys.ts";
import type { Filter, Picker, Producer, Scorer } from "../plugin/kinds.ts";

/** A plugin instance in a profile. */
export interface ProfileMember<P> {
  /** Instance name. */
  readonly name: string;
  readonly type: string;
  readonly plugin: P;
}

export interface WeightedScorer extends ProfileMember<Scorer> {
  /** Finite, from 0 up; only ratios count, and 0 means measure only. */
  readonly weight: number;
}

export interface ProfileProducer extends ProfileMember<Producer> {
  readonly produces: readonly ColumnKey[];
}

/** What one decision runs: made by `buildProfile`. */
export interface Profile {
  readonly name: string;
  /** Each sees what the ones before it left. */
  readonly filters: readonly ProfileMember<Filter>[];
  readonly scorers: readonly WeightedScorer[];
  readonly picker: ProfileMember<Picker>;
  /** In the order of their dependencies. */
  readonly producers: readonly ProfileProducer[];
}
