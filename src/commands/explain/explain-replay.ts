import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { counted } from "../../base/document/words.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { type ConfigSource, readConfig } from "../../picker/core/config-source.ts";
import { instancesOf, planOf } from "../../picker/core/plan.ts";
import { explain } from "../../picker/decisions/explain.ts";
import { readRecord } from "../../picker/decisions/explain-record.ts";
import { replay } from "../../picker/decisions/replay.ts";

/** The most differences in the text. */
const MAX_LISTED = 20;

/** The comparison of a recorded decision with its replay. */
export interface ReplayReport {
  readonly sequence: number;
  readonly requestId: string;
  /** The source of the configuration of the replay. */
  readonly configuration: string;
  /** Fingerprints of the configurations; "" when there is none. */
  readonly configHash: { readonly recorded: string; readonly replayed: string };
  /** The replay has the same endpoints in the same order and the same totals, bit by bit. */
  readonly same: boolean;
  readonly differences: readonly string[];
  /** Data that the configuration reads and the record lacks. */
  readonly missing: readonly string[];
  /** The reason for the choice of the replay. */
  readonly sentence: string;
}

/**
 * Replays the decision of a full record.
 * @param file the output of `sluice explain ID --full`
 * @param source the configuration; nothing = the built-in one
 * @throws SluiceError RECORD_NOT_REPLAYABLE, the errors of `readRecord` and `readConfig`
 */
export async function replayFile(file: string, source: ConfigSource): Promise<ReplayReport> {
  const record = await readRecord(file);
  const config = await readConfig(source, silentLogger);
  const parts = { clock: new VirtualClock(), random: new SeededRandom(1), log: silentLogger };
  const instances = instancesOf(config, parts);
  const { sequence, requestId } = record;
  let outcome: ReturnType<typeof replay>;
  try {
    const plan = planOf(config, instances);
    try {
      outcome = replay(record, plan);
    } catch (cause) {
      const problem = `the decision of ${file} cannot be replayed: ${messageOf(cause)}`;
      throw new SluiceError("RECORD_NOT_REPLAYABLE", problem, { cause });
    }
  } finally {
    instances.close();
  }
  if (outcome === undefined)
    throw new SluiceError(
      "RECORD_NOT_REPLAYABLE",
      `there is nothing to replay in ${file}: Sluice refused the request before it computed anything`,
    );
  const { differences, missing } = outcome;
  return {
    ...{ sequence, requestId, configuration: config.source, differences, missing },
    configHash: { recorded: record.configHash, replayed: outcome.record.configHash },
    same: differences.length === 0,
    sentence: explain(outcome.record).sentence,
  };
}

/** The report for a terminal. */
export function replayText(report: ReplayReport): string {
  const { sequence, configuration, configHash, same, differences, missing, sentence } = report;
  const lines = [`Decision ${sequence} replayed with ${configuration}:`];
  if (same) lines.push("same pick, and all totals agree bit by bit.");
  else {
    lines.push(...differences.slice(0, MAX_LISTED).map((difference) => `  ${difference}`));
    const more = differences.length - MAX_LISTED;
    if (more > 0) lines.push(`  and ${counted(more, "further difference")}`);
  }
  const { recorded, replayed } = configHash;
  if (recorded !== replayed && recorded !== "" && replayed !== "")
    lines.push(`The configurations differ: recorded ${recorded}, now ${replayed} (choose one with --config-file).`);
  for (const name of missing)
    lines.push(`The record has no value of ${name}, which this configuration reads: Sluice used 0.`);
  lines.push(`Now: ${sentence}`);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: ids are the clients', and a terminal obeys what it is shown
  return `${lines.join("\n").replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, "?")}\n`;
}
