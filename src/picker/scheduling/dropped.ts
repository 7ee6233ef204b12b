import type { RecordedFilter } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";

/** The most ids that a compact record keeps of the endpoints that one filter dropped. */
const KEPT_IDS = 8;

/** Returns the entry of a compact record for one filter or screener. */
export function droppedOnes(
  name: string,
  endpoints: readonly Endpoint[],
  keep: Uint8Array,
  count: number,
): RecordedFilter {
  const ids: string[] = [];
  let dropped = 0;
  for (let i = 0; i < count; i++) {
    if (keep[i] !== 0) continue;
    dropped++;
    if (ids.length < KEPT_IDS) ids.push(endpoints[i]!.id);
  }
  return { name, dropped, ids };
}

/** The filter or screener that dropped each endpoint, for a full record. */
export class DroppedBy {
  readonly #by = new Map<string, Map<Endpoint, string>>();

  /** @param profile of the filter; "" for a screener, which drops endpoints for all profiles */
  note(profile: string, name: string, endpoints: readonly Endpoint[], keep: Uint8Array, count: number): void {
    let by = this.#by.get(profile);
    if (by === undefined) {
      by = new Map();
      this.#by.set(profile, by);
    }
    for (let i = 0; i < count; i++) if (keep[i] === 0) by.set(endpoints[i]!, name);
  }

  of(profile: string, endpoint: Endpoint): string | undefined {
    return this.#by.get("")?.get(endpoint) ?? this.#by.get(profile)?.get(endpoint);
  }
}
