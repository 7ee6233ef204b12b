import type { Command } from "commander";
import { parseQuantity } from "../../base/document/quantity.ts";
import { sentence } from "../../base/document/words.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { LEAST_MEMORY } from "../../base/process/memory-plan.ts";
import type { ExplainSettings } from "../../picker/core/core-options.ts";
import type { BudgetSettings } from "../../picker/exchange/byte-budget.ts";
import { durationOf, wholeNumber } from "./command.ts";
import type { FlagRow, GivenFlags } from "./go-flags.ts";

/** Bytes: far more than the memory of a process. */
const MOST_BYTES = 2 ** 40;
/** Bytes: one read of a socket. With less, only small bodies would ever proceed. */
const LEAST_BUDGET = 64 * 1024;
/** Milliseconds. */
const LEAST_WINDOW = 100;

/** Help of `--learn-bytes-per-token` of `sluice epp` and `sluice gateway`. */
export const LEARN_HELP =
  "learn the bytes of prompt text per token of each model from answers; false = 4 bytes per token";

const MEMORY_HELP =
  "memory that the process plans to use. A small limit reduces the defaults of the byte budget and of prompt indexes, and the steps in which the heap grows. 0 = no limit; absent = the limit of the cgroup";

/** The flag for the memory of the process. */
export const MEMORY_FLAGS = [
  {
    name: "memory-limit",
    takes: "SIZE",
    type: "quantity",
    min: 0,
    max: MOST_BYTES,
    default: "",
    since: "ours",
    help: sentence(MEMORY_HELP),
  },
] as const satisfies readonly FlagRow[];

/**
 * The bytes of the flag; 0 = no limit, undefined = the flag is absent.
 * @throws SluiceError FLAG_VALUE
 */
export function memoryLimitOf({ values, explicit }: GivenFlags<typeof MEMORY_FLAGS>): number | undefined {
  return explicit.has("memory-limit") ? checkedMemory(values["memory-limit"]) : undefined;
}

/** The option of `sluice gateway` for the memory of the process. */
export interface MemoryOptions {
  readonly memoryLimit?: string;
}

export function withMemoryOption(command: Command): Command {
  return command.option("--memory-limit <bytes>", MEMORY_HELP);
}

/** As `memoryLimitOf`. @throws SluiceError FLAG_VALUE */
export function memoryLimitFrom({ memoryLimit }: MemoryOptions): number | undefined {
  return memoryLimit === undefined ? undefined : checkedMemory(bytesOf(memoryLimit, "--memory-limit", 0));
}

function checkedMemory(bytes: number): number {
  if (bytes === 0 || bytes >= LEAST_MEMORY) return bytes;
  throw new SluiceError(
    "FLAG_VALUE",
    `--memory-limit is ${bytes} bytes; give at least ${LEAST_MEMORY} (192Mi), or 0 for no limit`,
  );
}

const HELP = {
  budget:
    "byte budget of all request bodies except small bodies; when the budget is used up, all bodies except the oldest wait",
  small: "largest size of a small request body; small bodies have their own reserve; 0 = no body is small",
  reserve: "byte budget of all small request bodies",
  rate: "minimum rate of a request body in bytes per second. While memory is short (more than half of the budget or of the reserve is in use, or a body waits), slower bodies get 408; 0 = no limit",
  window: "how long a request body may stay below --body-min-rate",
} as const;

/** Flags for the bytes of bodies in memory, and for the requests that Sluice refuses when the memory is full. */
export const BODY_FLAGS = [
  row("body-budget", "quantity", LEAST_BUDGET, "256Mi", HELP.budget),
  row("small-body", "quantity", 0, "64Ki", HELP.small),
  row("small-body-reserve", "quantity", 0, "64Mi", HELP.reserve),
  row("body-min-rate", "quantity", 0, "1Ki", HELP.rate),
  row("body-stall-window", "duration", LEAST_WINDOW, "10s", HELP.window),
] as const satisfies readonly FlagRow[];

function row<N extends string, T extends "quantity" | "duration">(
  name: N,
  type: T,
  min: number,
  value: string,
  help: string,
) {
  return { name, type, min, max: MOST_BYTES, default: value, since: "ours", help: sentence(help) } as const;
}

/** @throws SluiceError FLAG_VALUE */
export function bodySettingsOf({ values }: GivenFlags<typeof BODY_FLAGS>): BudgetSettings {
  return checked({
    limit: values["body-budget"],
    small: values["small-body"],
    reserve: values["small-body-reserve"],
    minRate: values["body-min-rate"],
    window: values["body-stall-window"],
  });
}

/** The options of `sluice gateway` for bodies. */
export interface BodyOptions {
  readonly bodyBudget: string;
  readonly smallBody: string;
  readonly smallBodyReserve: string;
  readonly bodyMinRate: string;
  readonly bodyStallWindow: string;
}

/** Adds the options of `BodyOptions` to a command. */
export function withBodyOptions(command: Command): Command {
  return command
    .option("--body-budget <bytes>", HELP.budget, "256Mi")
    .option("--small-body <bytes>", HELP.small, "64Ki")
    .option("--small-body-reserve <bytes>", HELP.reserve, "64Mi")
    .option("--body-min-rate <bytes>", HELP.rate, "1Ki")
    .option("--body-stall-window <duration>", HELP.window, "10s");
}

/** @throws SluiceError FLAG_VALUE */
export function bodySettingsFrom(options: BodyOptions): BudgetSettings {
  return checked({
    limit: bytesOf(options.bodyBudget, "--body-budget", LEAST_BUDGET),
    small: bytesOf(options.smallBody, "--small-body", 0),
    reserve: bytesOf(options.smallBodyReserve, "--small-body-reserve", 0),
    minRate: bytesOf(options.bodyMinRate, "--body-min-rate", 0),
    window: durationOf(options.bodyStallWindow, "--body-stall-window", LEAST_WINDOW),
  });
}

/** The size of an option, in bytes. @throws SluiceError FLAG_VALUE */
export function bytesOf(text: string, flag: string, least: number): number {
  let bytes = Number.NaN;
  try {
    bytes = Math.ceil(parseQuantity(text));
  } catch {
    // The error below reports it.
  }
  if (bytes >= least && bytes <= MOST_BYTES) return bytes;
  throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give a size of at least ${least} bytes, such as 64Mi`);
}

/** A small body that is larger than the reserve would always wait, so such settings are refused. */
function checked(settings: BudgetSettings): BudgetSettings {
  const { small, reserve } = settings;
  if (small <= reserve) return settings;
  throw new SluiceError(
    "FLAG_VALUE",
    `--small-body is ${small} bytes, more than --small-body-reserve (${reserve} bytes); raise the reserve`,
  );
}

const EVERY = "256";
const MOST_EVERY = 1_000_000_000;
const HEADER_HELP =
  "let a request ask for its decision with the header x-sluice-explain: 1. Sluice keeps the full record, and adds the headers x-sluice-decision (the number) and x-sluice-decision-reason, which name endpoints, to the answer";
const EVERY_HELP =
  "keep a full record of one decision in N, for sluice explain --full; 0 = only for requests that ask for a record";

/** Flags for the records and the headers that explain decisions. */
export const EXPLAIN_FLAGS = [
  { name: "decision-header", type: "bool", default: "false", since: "ours", help: sentence(HEADER_HELP) },
  {
    name: "full-records-every",
    takes: "NUMBER",
    type: "int",
    min: 0,
    max: MOST_EVERY,
    default: EVERY,
    since: "ours",
    help: sentence(EVERY_HELP),
  },
] as const satisfies readonly FlagRow[];

/** Reads the flags of `sluice epp` that explain decisions. */
export function explainSettingsOf({ values }: GivenFlags<typeof EXPLAIN_FLAGS>): ExplainSettings {
  return { decisionHeader: values["decision-header"], fullRecordsEvery: values["full-records-every"] };
}

/** The options of `sluice gateway` that explain decisions. */
export interface ExplainOptions {
  readonly decisionHeader: boolean;
  readonly fullRecordsEvery: string;
}

/** Adds the options of `ExplainOptions` to a command. */
export function withExplainOptions(command: Command): Command {
  return command
    .option("--decision-header", HEADER_HELP, false)
    .option("--full-records-every <number>", EVERY_HELP, EVERY);
}

/** @throws SluiceError FLAG_VALUE */
export function explainSettingsFrom({ decisionHeader, fullRecordsEvery }: ExplainOptions): ExplainSettings {
  return { decisionHeader, fullRecordsEvery: wholeNumber(fullRecordsEvery, "--full-records-every", 0, MOST_EVERY) };
}
