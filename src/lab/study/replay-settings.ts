import { SluiceError } from "../../base/inference/errors.ts";
import type { ConfigSource } from "../../picker/core/config-source.ts";
import { named, rateFlag, separate, wholeFlag } from "./flag-values.ts";
import type { ReplayOptions } from "./replay/replay-recorded.ts";
import { MAX_RATE, MAX_SEEDS, MAX_SERVERS, type SimulateCatalogue, type SimulateFlags } from "./simulate-settings.ts";

/** The flags of the command line, as text. */
export interface ReplayFlags
  extends Pick<
    SimulateFlags,
    "policy" | "configFile" | "allowExperimentalPlugins" | "rate" | "servers" | "engine" | "seeds" | "seed"
  > {
  readonly profile?: string | undefined;
  readonly recordedWith?: string | undefined;
  readonly field?: readonly string[] | undefined;
  readonly promptTokens?: string | undefined;
}

/** The target of a replay, and its settings. */
export interface ReplaySettings {
  readonly source: ConfigSource;
  readonly options: ReplayOptions;
}

/** The longest legal default of a prompt, in tokens. */
const MAX_PROMPT = 1_000_000;

/** @throws SluiceError FLAG_VALUE, FLAG_CONFLICT */
export function replaySettings(flags: ReplayFlags, { policies, presets }: SimulateCatalogue): ReplaySettings {
  const allowExperimental = flags.allowExperimentalPlugins === true;
  const { configFile: files = [], profile, recordedWith, rate, servers, engine, promptTokens, policy } = flags;
  if (files.length > 1)
    throw new SluiceError("FLAG_CONFLICT", "--replay tries one configuration: give one --config-file");
  if (rate !== undefined && rate.length !== 1)
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--replay plays at one rate: give one --rate, or omit --rate for the recorded rate",
    );
  const seeds = wholeFlag(flags.seeds ?? "1", "--seeds", 1, MAX_SEEDS);
  const first = wholeFlag(flags.seed ?? "1", "--seed", 0, 2 ** 32 - seeds);
  return {
    source: { configFile: files[0], profile, allowExperimental },
    options: {
      recordedWith: recordedWith === undefined ? undefined : { configFile: recordedWith, allowExperimental },
      fields: flags.field,
      servers: servers === undefined ? undefined : wholeFlag(servers, "--servers", 1, MAX_SERVERS),
      preset: engine === undefined ? undefined : named(engine, "engine preset", presets, "--engine"),
      policies:
        policy === undefined
          ? undefined
          : [...new Set(separate(policy))].map((name) => named(name, "policy", policies, "--policy")),
      seeds: Array.from({ length: seeds }, (_, i) => first + i),
      rate: rate === undefined ? undefined : rateFlag(rate[0]!, "--rate", MAX_RATE),
      promptTokens: promptTokens === undefined ? undefined : wholeFlag(promptTokens, "--prompt-tokens", 1, MAX_PROMPT),
    },
  };
}
