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
  /** Finite, from 0 up. Only ratios count; 0 means that the scorer only measures. */
  readonly weight: number;
}

/** The plugins of one profile. */
export interface Profile {
  readonly name: string;
  /** Each filter sees the candidates that the earlier filters left. */
  readonly filters: readonly ProfileMember<Filter>[];
  readonly scorers: readonly WeightedScorer[];
  readonly picker: ProfileMember<Picker>;
}

/** Places of the columns that the scheduler itself reads; `NO_WRITER` where no producer writes them. */
export interface PlanFigures {
  readonly matchedBlocks: number;
  readonly totalBlocks: number;
  readonly blockTokens: number;
  readonly uncachedTokens: number;
  /** Of the producer that remembers what was routed where. */
  readonly predicted: CachedAt;
  /** Of the producer that hears KV-cache events. */
  readonly events: CachedAt;
  /** Of the same producer: the blocks that no event has confirmed yet. */
  readonly unconfirmed: number;
}

/** Places of the columns that say how many blocks of the prompt each candidate has, and the tokens of a block. */
export interface CachedAt {
  readonly blocks: number;
  readonly blockTokens: number;
}

/** The plugins that each decision runs, in this order (scheduling 3.3, 3.6). `buildPlan` makes it. */
export interface SchedulingPlan {
  /** Fingerprint of the configuration of the plan; "" when none was given. */
  readonly configHash: string;
  readonly screeners: readonly ProfileMember<Screener>[];
  /** In the order of their dependencies. */
  readonly producers: readonly ProfileMember<Producer>[];
  readonly admitters: readonly ProfileMember<Admitter>[];
  /** At least one. */
  readonly profiles: readonly Profile[];
  /** Undefined: the only profile runs once. */
  readonly handler: ProfileMember<ProfileHandler> | undefined;
  /** The name of each column, by place: `producer/key`. */
  readonly columns: readonly string[];
  /** The name of each request attribute, by place. */
  readonly attributes: readonly string[];
  readonly figures: PlanFigures;
  /** Whether the tokens of a request count on its endpoint until the end of the answer. */
  readonly keepsTokens: boolean;
  /** The producer of prefix matches, if there is one. */
  readonly prefixProducer: ProfileMember<Producer> | undefined;
  /** Request headers that decisions depend on, in lower case: full records keep them. */
  readonly headers: readonly string[];
}

/** The place of a column that a plugin may read and that no producer writes. */
export const NO_WRITER = -1;

/** The place of one of a producer's keys. */
export interface WrittenAt {
  readonly of: DataKey["of"];
  readonly place: number;
}

/**
 * The data that one plugin may read and write: the places of its keys, of the producer instance that it chose (scheduling 3.4).
 */
export interface DataScope {
  /** `NO_WRITER` where no producer writes a key that it declares. */
  readonly columns: ReadonlyMap<ColumnKey, number>;
  readonly attributes: ReadonlyMap<AttributeKey, number>;
  /** Of a producer: its own keys. */
  readonly writes: ReadonlyMap<DataKey, WrittenAt>;
}

export const NOTHING_IN_SCOPE: DataScope = { columns: new Map(), attributes: new Map(), writes: new Map() };

/** Joins the data that several plugins may read; where they differ, the first one counts. */
export function joinedScope(scopes: readonly DataScope[]): DataScope {
  const merge = <K, V>(pick: (scope: DataScope) => ReadonlyMap<K, V>): Map<K, V> =>
    new Map(scopes.toReversed().flatMap((scope) => [...pick(scope)]));
  return {
    columns: merge((scope) => scope.columns),
    attributes: merge((scope) => scope.attributes),
    writes: merge((scope) => scope.writes),
  };
}
