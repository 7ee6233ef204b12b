import type { FullRecord } from "../../../base/inference/decision-record.ts";
import {
  type ColumnKey,
  IN_FLIGHT_REQUESTS,
  IN_FLIGHT_TOKENS,
  PREFIX_BLOCK_TOKENS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
  TOKENIZED_PROMPT,
  UNCACHED_TOKENS,
} from "../../../base/plugin/keys.ts";
import { inflightLoadProducer } from "../../../picker/scheduling/plugins/load/inflight-load-producer.ts";
import type { SchedulingPlan } from "../../../picker/scheduling/profile.ts";

/**
 * A full record with what a plan reads of the load in flight, where its own configuration did not: that load is in the
 * record with every endpoint. Estimates of output are not made up: whoever reads those lacks them still.
 */
export function withDerivedColumns(full: FullRecord, plan: SchedulingPlan): FullRecord {
  const columns: Record<string, readonly number[]> = {};
  for (const { type, scope, plugin } of plan.producers) {
    // Others may mean something else by the same keys.
    if (type !== inflightLoadProducer.type) continue;
    const nameOf = (key: ColumnKey): string | undefined => {
      const at = scope.writes.get(key);
      return at === undefined || at.of !== "endpoint" ? undefined : plan.columns[at.place];
    };
    const requests = nameOf(IN_FLIGHT_REQUESTS);
    const tokens = nameOf(IN_FLIGHT_TOKENS);
    const uncached = nameOf(UNCACHED_TOKENS);
    const loads = full.screened.map((place) => full.endpoints[place]!.inFlight);
    if (requests !== undefined) columns[requests] = loads.map((load) => load.requests);
    if (tokens !== undefined) columns[tokens] = loads.map((load) => load.tokens);
    if (uncached !== undefined && plugin.estimatesOutput === false) {
      const prefix = [PREFIX_TOTAL_BLOCKS, PREFIX_MATCHED_BLOCKS, PREFIX_BLOCK_TOKENS].map(
        (key) => full.columns[plan.columns[scope.columns.get(key) ?? -1] ?? ""],
      );
      columns[uncached] = uncachedTokens(full, prefix, plan.attributes);
    }
  }
  // What was recorded counts.
  return { ...full, columns: { ...columns, ...full.columns } };
}

/** As that producer counts them. @param prefix blocks of the prompt, blocks found, tokens of a block */
function uncachedTokens(
  full: FullRecord,
  prefix: readonly (readonly number[] | undefined)[],
  attributes: readonly string[],
): number[] {
  const name = attributes.find((one) => one.endsWith(`/${TOKENIZED_PROMPT.name}`));
  const counted = name === undefined ? undefined : full.attributes[name];
  const { promptBytes, escapeBytes, bytesPerToken } = full.request;
  const estimated = Math.ceil(Math.max(0, promptBytes - escapeBytes) / bytesPerToken);
  const input = typeof counted === "number" ? counted : estimated;
  const [total, matched, block] = prefix;
  return full.screened.map((_, at) => {
    if (total === undefined || matched === undefined || block === undefined) return input;
    const hashed = Math.max(0, total[at]! - matched[at]!) * block[at]!;
    return hashed + Math.max(0, input - total[at]! * block[at]!);
  });
}
