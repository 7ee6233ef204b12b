import { Command, type CommanderError } from "commander";
import { parseDuration } from "../../base/document/duration.ts";
import { counted } from "../../base/document/words.ts";
import { oneLine, SluiceError } from "../../base/inference/errors.ts";

/**
 * A command that throws what commander refuses as a SluiceError, and a CommanderError after help and version. It prints no
 * errors and does not end the process. @param of the command that contains this one; "" for none
 */
export function command(name: string, description: string, of = "sluice"): Command {
  const called = of === "" ? name : `${of} ${name}`;
  return new Command(name)
    .description(description)
    .configureOutput({ outputError: () => {} })
    .exitOverride((error) => {
      throw refusalOf(error, called);
    });
}

/** An error of commander with a code and a message of ours; an error without a row in the table, such as after help, as it is. */
function refusalOf(error: CommanderError, called: string): Error {
  const suggestion = /\n\(Did you mean (?:one of )?(.*)\?\)$/.exec(error.message);
  const words = error.message.slice(0, suggestion?.index);
  const quoted = oneLine(/'(.*)'/s.exec(words)?.[1] ?? "");
  const ending = (what: string): string =>
    suggestion === null ? `; ${called} --help lists the ${what}` : `; did you mean ${suggestion[1]}?`;
  switch (error.code) {
    case "commander.unknownCommand":
      return new SluiceError("COMMAND_UNKNOWN", `unknown command ${quoted}${ending("commands")}`);
    case "commander.unknownOption":
      return new SluiceError("FLAG_UNKNOWN", `unknown flag ${quoted} of ${called}${ending("flags")}`);
    case "commander.optionMissingArgument":
      return new SluiceError("FLAG_SYNTAX", `a value is missing; write ${quoted}`);
    case "commander.missingArgument":
      return new SluiceError("FLAG_MISSING", `give <${quoted}>; ${called} --help describes it`);
    case "commander.excessArguments": {
      const [, most = "", given = ""] = /Expected (\d+) .* but got \d+: (.*)\.$/s.exec(words) ?? [];
      const takes = most === "0" ? "no argument" : counted(Number(most), "argument");
      return new SluiceError("ARGUMENT_UNEXPECTED", oneLine(`${called} takes ${takes}, but got ${given}`));
    }
    default:
      return error;
  }
}

/** The values of `--log-level`. */
export const LOG_LEVELS = ["error", "warn", "info", "debug"] as const;

/** The streams to which a command writes. */
export interface Output {
  out(text: string): void;
  err(text: string): void;
}

export const STANDARD: Output = {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
};

/** For repeatable options: collects the values in order. */
export function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}

/** @throws SluiceError FLAG_VALUE */
export function wholeNumber(text: string, flag: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\s*\d+\s*$/.test(text) || value < least || value > most)
    throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give a whole number from ${least} to ${most}`);
  return value;
}

/** The duration of an option, in milliseconds. @throws SluiceError FLAG_VALUE */
export function durationOf(text: string, flag: string, least: number, most = Number.POSITIVE_INFINITY): number {
  let ms = Number.NaN;
  try {
    ms = parseDuration(text);
  } catch {
    // The error below reports it.
  }
  if (ms >= least && ms <= most) return ms;
  const good = most < 10_000 ? `of at most ${most} ms, such as 10ms` : "such as 10s, 90m or 24h";
  throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give a duration ${good}`);
}

/** The value of a flag that is on by default. @throws SluiceError FLAG_VALUE */
export function trueOrFalse(text: string, flag: string): boolean {
  if (text !== "true" && text !== "false")
    throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give true or false`);
  return text === "true";
}

/** The word that the text is. @throws SluiceError FLAG_VALUE */
export function oneOf<T extends string>(words: readonly T[], text: string, flag: string): T {
  const found = words.find((word) => word === text);
  if (found !== undefined) return found;
  throw new SluiceError("FLAG_VALUE", `${flag} is ${JSON.stringify(text.slice(0, 100))}; give ${words.join(", ")}`);
}
