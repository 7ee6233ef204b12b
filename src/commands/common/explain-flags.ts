import type { Command } from "commander";
import type { ExplainSettings } from "../../picker/core/explain-settings.ts";
import { wholeNumber } from "./command.ts";
import type { FlagRow, GivenFlags } from "./go-flags.ts";

const EVERY = "256";
const MOST = 1_000_000_000;
const HEADER_HELP =
  "to a request with x-sluice-explain: 1 answer with x-sluice-decision, the number of the decision, and x-sluice-decision-reason, and record the decision in full; clients then see endpoints by name";
const EVERY_HELP = "record one decision in so many in full, for sluice explain --full; 0 = only where it is asked for";

/** What is kept and told of decisions. */
export const EXPLAIN_FLAGS = [
  { name: "decision-header", type: "bool", default: "false", since: "ours", help: sentence(HEADER_HELP) },
  {
    name: "full-records-every",
    takes: "NUMBER",
    type: "int",
    min: 0,
    max: MOST,
    default: EVERY,
    since: "ours",
    help: sentence(EVERY_HELP),
  },
] as const satisfies readonly FlagRow[];

export function explainSettingsOf({ values }: GivenFlags<typeof EXPLAIN_FLAGS>): ExplainSettings {
  return { decisionHeader: values["decision-header"], fullRecordsEvery: values["full-records-every"] };
}

/** The same as options of `sluice gateway`. */
export interface ExplainOptions {
  readonly decisionHeader: boolean;
  readonly fullRecordsEvery: string;
}

export function withExplainOptions(command: Command): Command {
  return command
    .option("--decision-header", HEADER_HELP, false)
    .option("--full-records-every <number>", EVERY_HELP, EVERY);
}

/** @throws SluiceError FLAG_VALUE */
export function explainSettingsFrom({ decisionHeader, fullRecordsEvery }: ExplainOptions): ExplainSettings {
  return { decisionHeader, fullRecordsEvery: wholeNumber(fullRecordsEvery, "--full-records-every", 0, MOST) };
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
