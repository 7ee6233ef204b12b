import type { AttributeKey, ColumnKey, DataKey } from "../../base/plugin/keys.ts";
import type { Admitter, Filter, Picker, Producer, ProfileHandler, Scorer, Screener } from "../../base/plugin/kinds.ts";

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

/** Stands for the place of a column that a plugin may read and that no producer writes. */
export const NO_WRITER = -1;

/** Where one of a producer's keys is kept. */
export interface WrittenAt {
  readonly of: DataKey["of"];
  readonly place: number;
}

/** What one plugin may read and write: the places of its keys, of the instance of the producer that it chose (scheduling 3.4). */
export interface DataScope {
  /** `NO_WRITER` where no producer writes a key that it declares. */
  readonly columns: ReadonlyMap<ColumnKey, number>;
  readonly attributes: ReadonlyMap<AttributeKey, number>;
  /** Of a producer: its own keys. */
  readonly writes: ReadonlyMap<DataKey, WrittenAt>;
}

export const NOTHING_IN_SCOPE: DataScope = { columns: new Map(), attributes: new Map(), writes: new Map() };

/** What several plugins may read together; where they differ, the first counts. */
export function joinedScope(scopes: readonly DataScope[]): DataScope {
  const merge = <K, V>(pick: (scope: DataScope) => ReadonlyMap<K, V>): Map<K, V> =>
    new Map(scopes.toReversed().flatMap((scope) => [...pick(scope)]));
  return {
    columns: merge((scope) => scope.columns),
    attributes: merge((scope) => scope.attributes),
    writes: merge((scope) => scope.writes),
  };
}
