import type { DecisionRecord } from "../../../base/inference/decision-record.ts";
import type { LeftOut } from "../feed/endpoints.ts";

/** Milliseconds that count. */
const WINDOW = 60_000;
/** The most records read: as many as a process keeps. */
const MAX_READ = 4096;
const MAX_NAMED = 16;

interface Found {
  times: number;
  decisions: number;
  named: boolean;
  readonly endpoints: Map<string, number>;
}

/**
 * Why endpoints were left out of the decisions of the last minute, as far as their records are kept.
 * @param wall the present time in milliseconds
 * @param id counts only this endpoint, where a record names it
 */
export function leftOutOf(
  records: { latest(count: number): readonly DecisionRecord[] },
  wall: number,
  id?: string,
): LeftOut {
  const found = new Map<string, Found>();
  let decisions = 0;
  let oldest = wall;
  for (const { at, excludedDown, filters } of records.latest(MAX_READ)) {
    if (wall - at > WINDOW) break;
    decisions++;
    oldest = at;
    if (excludedDown > 0 && id === undefined) count(found, "down", excludedDown, []);
    for (const { name, dropped, ids } of filters)
      if (id === undefined) count(found, name, dropped, ids);
      else if (ids.includes(id)) count(found, name, 1, [id]);
  }
  return {
    seconds: Math.round((wall - oldest) / 1000),
    decisions,
    reasons: [...found]
      .sort(([, a], [, b]) => b.times - a.times)
      .map(([reason, { endpoints, ...rest }]) => ({
        reason,
        ...rest,
        endpoints: [...endpoints]
          .sort(([, a], [, b]) => b - a)
          .slice(0, MAX_NAMED)
          .map(([endpoint, times]) => ({ id: endpoint, times })),
      })),
  };
}

function count(found: Map<string, Found>, reason: string, dropped: number, ids: readonly string[]): void {
  let entry = found.get(reason);
  if (entry === undefined) {
    entry = { times: 0, decisions: 0, named: true, endpoints: new Map() };
    found.set(reason, entry);
  }
  entry.times += dropped;
  entry.decisions++;
  entry.named &&= ids.length === dropped;
  for (const id of ids) entry.endpoints.set(id, (entry.endpoints.get(id) ?? 0) + 1);
}
