import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import type { DecisionRecord, FullRecord } from "../../../base/inference/decision-record.ts";
import { silentLogger } from "../../../base/telemetry/logger.ts";
import { BUILT_IN_PROFILES } from "../../../picker/config/defaults.ts";
import type { EffectiveConfig } from "../../../picker/config/effective.ts";
import { type ConfigSource, checkedConfig } from "../../../picker/core/config-source.ts";
import { instancesOf, planOf } from "../../../picker/core/plan.ts";
import { type ReplayOutcome, replay } from "../../../picker/decisions/replay.ts";
import type { SchedulingPlan } from "../../../picker/scheduling/profile.ts";
import { withDerivedColumns } from "./derived-columns.ts";

/** A configuration that recorded decisions are made again with. To be closed. */
export class ReplayedConfiguration {
  readonly config: EffectiveConfig;
  readonly #instances: ReturnType<typeof instancesOf>;
  readonly #plan: SchedulingPlan;

  /** @throws SluiceError what `planOf` throws */
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

  /** Where it came from. */
  get source(): string {
    return this.config.source;
  }

  get hash(): string {
    return this.#plan.configHash;
  }

  /** Headers by which it goes, in lower case. */
  get headers(): readonly string[] {
    return this.#plan.headers;
  }

  /** Whether it would have left endpoints out before anything was recorded. */
  get screens(): boolean {
    return this.#plan.screeners.length > 0;
  }

  /** @returns undefined where nothing was computed for the request */
  replay(record: DecisionRecord, full: FullRecord): ReplayOutcome | undefined {
    return replay({ ...record, full: withDerivedColumns(full, this.#plan) }, this.#plan);
  }

  close(): void {
    this.#instances.close();
  }
}

/**
 * The configurations that may have decided, by their fingerprints: those that are built in, and the one that is said to
 * have. To be closed, each.
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
