import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import type { SimulateShape } from "../../lab/study/run-simulate.ts";
import { collect, command } from "../common/command.ts";

interface Flags extends SimulateShape {
  readonly list: boolean;
  readonly policy?: readonly string[];
  readonly configFile?: readonly string[];
  readonly allowExperimentalPlugins: boolean;
  readonly rate?: readonly string[];
  readonly duration?: string;
  readonly cold: boolean;
  readonly servers?: string;
  readonly engine?: string;
  readonly seeds?: string;
  readonly seed?: string;
  readonly scrapeInterval?: string;
  readonly metricsLag?: string;
  readonly bytesPerToken?: string;
  readonly pickers?: string;
  readonly peerDelay?: string;
  readonly peerLoss?: string;
  readonly quick: boolean;
  readonly replay?: readonly string[];
  readonly profile?: string;
  readonly recordedWith?: string;
  readonly field?: readonly string[];
  readonly promptTokens?: string;
  readonly trace?: string;
  readonly speed?: string;
  readonly window?: string;
  readonly maxModelLen?: string;
}

interface Stream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

/** The outputs of the command: tables and JSON go to stdout, progress goes to stderr. */
export interface SimulateOutput {
  readonly stdout: Stream;
  readonly stderr: Stream;
}

/** The options that only one form of the command takes. */
const LIST_ONLY: readonly string[] = ["list", "json"];
const NOT_FOR_REPLAY: readonly string[] = [
  "duration",
  "cold",
  "scrapeInterval",
  "metricsLag",
  "bytesPerToken",
  "quick",
  "pickers",
  "peerDelay",
  "peerLoss",
];
const NOT_FOR_TRACE: readonly string[] = ["rate", "duration", "cold", "quick"];
const TRACE_ONLY: readonly string[] = ["speed", "window", "maxModelLen"];
const REPLAY_ONLY: readonly string[] = ["profile", "recordedWith", "field", "promptTokens"];

/** `sluice simulate`: compares routing policies on simulated engines, in virtual time. */
export function simulateCommand({ stdout, stderr }: SimulateOutput = process): Command {
  return command(
    "simulate",
    "compare routing policies on simulated engines, with the scheduler that runs in production",
  )
    .argument("[workload...]", "names of workloads from --list, or all; default: b2b-saas")
    .option("--list", "print the workloads, policies and engine presets", false)
    .option(
      "--policy <name...>",
      "policies from --list, or all; the first one is the baseline of all ratios (default: round-robin, least-active, scraped-queue, default, sticky-until-saturated)",
    )
    .option("--config-file <file...>", "EndpointPickerConfig files; each file is one more policy, named after the file")
    .option("--allow-experimental-plugins", "permit alpha plugins in the files of --config-file", false)
    .option(
      "--rate <number...>",
      "arrival rates in the workload's unit, for example 10 20 40; all = every rate that the workload defines (default: four of these)",
    )
    .option("--duration <time>", "how long requests arrive, in virtual time (default: the workload's)")
    .option("--cold", "no warm-up: servers begin with empty caches, and every request counts", false)
    .option("--servers <number>", "number of model servers (default: the workload's)")
    .option(
      "--engine <preset-or-file>",
      "model and machine: a preset from --list, or a YAML or JSON file with its figures (default: the workload's)",
    )
    .option("--seeds <number>", "number of runs, each with another seed (default: 3; with --quick: 1)")
    .option("--seed <number>", "the first seed; the same seed gives the same arrivals to every policy (default: 1)")
    .option(
      "--scrape-interval <time>",
      "time between two reads of a server's metrics (default: the workload's, mostly 50ms)",
    )
    .option("--metrics-lag <time>", "age of metrics when the picker gets them (default: from the workload, mostly 0)")
    .option("--bytes-per-token <number>", "bytes of prompt text per token, 1 to 16 (default: 4)")
    .option(
      "--pickers <number>",
      "replicas of the picker in front of the servers, 1 to 64; requests go to the replicas in turn; a policy without a scheduler has one replica (default: 1)",
    )
    .option(
      "--peer-delay <time>",
      "with --pickers: the delay of a message between pickers, or off = they share nothing (default: 20ms)",
    )
    .option(
      "--peer-loss <share>",
      "with --pickers: share of the loads that a picker does not get, and of the blocks that it gets late (default: 0)",
    )
    .option("--quick", "run only three rates and one seed; the first line of the output estimates the time", false)
    .option("--html <file>", "also write a report with plots")
    .option("--json", "print the results as one JSON object on stdout, not as tables", false)
    .option("--quiet", "print no progress on stderr", false)
    .option(
      "--replay <file...>",
      "instead of a workload: recorded decisions (sluice explain --all --full) or an access log, with the configuration of --config-file or --profile",
    )
    .option("--profile <name>", "with --replay: a built-in profile of sluice epp and gateway to try")
    .option("--recorded-with <file>", "with --replay: the configuration of the records, to check them")
    .option("--field <name=path>", "with --replay: the path of a field in the access log; repeatable", collectField)
    .option("--prompt-tokens <number>", "with --replay: tokens of a prompt whose length is not in the access log")
    .option(
      "--trace <file>",
      "instead of a workload: a published trace in the format of Mooncake, Azure LLM inference or BurstGPT",
    )
    .option("--speed <factor>", "with --trace: factor on the recorded speed, from 0.01 to 1000 (default: 1)")
    .option(
      "--window <time>",
      "with --trace: the part to play, as a length (10m) or as start and end (5m..15m) in recorded time from the first row (default: all, at most 24h)",
    )
    .option(
      "--max-model-len <tokens>",
      "with --trace: the most tokens of a prompt with its answer; the command skips longer rows (default: the engine's)",
    )
    .action(async (workloads: readonly string[], flags: Flags, self: Command) => {
      const given = self.options.filter((one) => self.getOptionValueSource(one.attributeName()) === "cli");
      const refuse = (form: string, isWrong: (name: string) => boolean): void => {
        const wrong = given.find((one) => isWrong(one.attributeName()));
        if (wrong !== undefined) throw new SluiceError("FLAG_CONFLICT", `${wrong.long} ${form}`);
      };
      const { list, replay, trace, html, json, quiet, ...settings } = flags;
      // Loaded on use: `sluice sim` needs none of it.
      const { runReplay, runSimulate, runTrace, simulateNames } = await import("../../lab/study/run-simulate.ts");
      if (list) {
        refuse("has no effect with --list: remove it", (name) => !LIST_ONLY.includes(name));
        if (workloads.length > 0)
          throw new SluiceError("FLAG_CONFLICT", "--list lists everything: remove the workload");
        stdout.write(simulateNames(json));
        return;
      }
      const shape = { html, command: commandLine(self), json, quiet };
      const width = stdout.isTTY === true ? stdout.columns : undefined;
      const streams = { out: (text: string) => stdout.write(text), progress: stderr, width };
      if (replay === undefined) refuse("works only with --replay FILE", (name) => REPLAY_ONLY.includes(name));
      if (trace === undefined) refuse("works only with --trace FILE", (name) => TRACE_ONLY.includes(name));
      if (trace !== undefined) {
        if (replay !== undefined)
          throw new SluiceError("FLAG_CONFLICT", "--trace and --replay exclude each other: give one of them");
        refuse("has no effect with --trace: the file decides; see --speed and --window", (name) =>
          NOT_FOR_TRACE.includes(name),
        );
        if (workloads.length > 0)
          throw new SluiceError("FLAG_CONFLICT", "--trace plays the requests in its file: remove the workload");
        process.exitCode = await runTrace(trace, settings, shape, streams);
        return;
      }
      if (replay === undefined) {
        process.exitCode = await runSimulate(workloads, settings, shape, streams);
        return;
      }
      refuse("has no effect with --replay: the files decide; remove it", (name) => NOT_FOR_REPLAY.includes(name));
      if (workloads.length > 0)
        throw new SluiceError("FLAG_CONFLICT", "--replay plays the requests in its files: remove the workload");
      process.exitCode = await runReplay(replay, settings, shape, streams);
    });
}

/** The command line as typed, for a shell; undefined when no program contains the command. */
function commandLine({ parent }: Command): string | undefined {
  if (parent === null) return undefined;
  const word = (text: string): string => (/^[\w./:=,@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  return ["sluice", ...parent.args].map(word).join(" ");
}

function collectField(value: string, before: readonly string[] | undefined): readonly string[] {
  return collect(value, before ?? []);
}
