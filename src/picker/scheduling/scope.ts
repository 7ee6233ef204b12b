import type { AttributeKey, ColumnKey, DataKey } from "../../base/plugin/keys.ts";

/** Stands for the place of a column that a plugin may read and that no producer writes. */
export const NO_WRITER = -1;

/** Where one of a producer's keys is kept. */
export interface WrittenAt {
  readonly of: DataKey["of"];
  readonly place: number;
}

/** What one plugin may read and write: the places of its keys, of the instance of the producer that it chose (3.4). */
export interface DataScope {
  /** `NO_WRITER` where no producer writes a key that it declares. */
  readonly columns: ReadonlyMap<ColumnKey, number>;
  readonly attributes: ReadonlyMap<AttributeKey, number>;
  /** Of a producer: its own keys. */
  readonly writes: ReadonlyMap<DataKey, WrittenAt>;
}

export const NOTHING_IN_SCOPE: DataScope = { columns: new Map(), attributes: new Map(), writes: new Map() };

/** What several plugins may read together; where they differ, the first counts. */
export function joined(scopes: readonly DataScope[]): DataScope {
  const merge = <K, V>(pick: (scope: DataScope) => ReadonlyMap<K, V>): Map<K, V> =>
    new Map(scopes.toReversed().flatMap((scope) => [...pick(scope)]));
  return {
    columns: merge((scope) => scope.columns),
    attributes: merge((scope) => scope.attributes),
    writes: merge((scope) => scope.writes),
  };
}
