import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import type { DecisionRecord, FullRecord } from "../../../base/inference/decision-record.ts";
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
import { silentLogger } from "../../../base/telemetry/logger.ts";
import { BUILT_IN_PROFILES } from "../../../picker/config/defaults.ts";
import type { EffectiveConfig } from "../../../picker/config/effective.ts";
import { type ConfigSource, checkedConfig } from "../../../picker/core/config-source.ts";
import { instancesOf, planOf } from "../../../picker/core/plan.ts";
import { type ReplayOutcome, replay } from "../../../picker/decisions/replay.ts";
import { inflightLoadProducer } from "../../../picker/scheduling/plugins/load/inflight-load-producer.ts";
import type { SchedulingPlan } from "../../../picker/scheduling/profile.ts";

/** A configuration for replays of recorded decisions. The caller must close it. */
export class ReplayedConfiguration {
  readonly config: EffectiveConfig;
  readonly #instances: ReturnType<typeof instancesOf>;
  readonly #plan: SchedulingPlan;

  /** @throws SluiceError the errors of `planOf` */
  constructor(config: EffectiveConfig) {
    this.config = config;
    const parts = { clock: new VirtualClock(), random: new SeededRandom(1), log: silentLogger };
    this.#instances = instancesOf(config, parts);
    try {
      this.#plan = planOf(config, this.#instances);
    } catch (error) {
      this.#instances.close();
      throw error;
    }
  }

  /** The source of the configuration. */
  get source(): string {
    return this.config.source;
  }

  get hash(): string {
    return this.#plan.configHash;
  }

  /** Headers that the configuration reads, in lower case. */
  get headers(): readonly string[] {
    return this.#plan.headers;
  }

  /** Whether the configuration has screeners: they would remove endpoints before the record is made. */
  get screens(): boolean {
    return this.#plan.screeners.length > 0;
  }

  /** @returns undefined when the record holds no data for the request */
  replay(record: DecisionRecord, full: FullRecord): ReplayOutcome | undefined {
    return replay({ ...record, full: withDerivedColumns(full, this.#plan) }, this.#plan);
  }

  close(): void {
    this.#instances.close();
  }
}

/**
 * The configurations that may have made the recorded decisions, by their fingerprints: the built-in ones, and the given one.
 * The caller must close each.
 * @throws SluiceError DOCUMENT_..., PLUGIN_LOAD, FLAG_VALUE, FLAG_CONFLICT
 */
export async function knownConfigurations(given: ConfigSource | undefined): Promise<ReplayedConfiguration[]> {
  const sources: ConfigSource[] = [
    ...BUILT_IN_PROFILES.map((profile) => ({ profile })),
    ...(given === undefined ? [] : [given]),
  ];
  const known: ReplayedConfiguration[] = [];
  try {
    for (const source of sources) known.push(new ReplayedConfiguration(await checkedConfig(source, silentLogger)));
  } catch (error) {
    for (const one of known) one.close();
    throw error;
  }
  return known;
}

/**
 * Adds the columns of load in flight that a plan reads and the record's own configuration did not. Every record holds that load
 * for each endpoint. Estimates of output are not added: plugins that read them still lack them.
 */
function withDerivedColumns(full: FullRecord, plan: SchedulingPlan): FullRecord {
  const columns: Record<string, readonly number[]> = {};
  for (const { type, scope, plugin } of plan.producers) {
    // Other plugins may use the same keys with another meaning.
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
  // Recorded columns take precedence.
  return { ...full, columns: { ...columns, ...full.columns } };
}

/** The count of that producer. @param prefix blocks of the prompt, blocks found, tokens of a block */
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
