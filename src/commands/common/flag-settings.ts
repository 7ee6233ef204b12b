import type { Command } from "commander";
import { isSecret, REDACTED, redacted, withoutKeys } from "../../base/inference/secrets.ts";
import type { FlagRow } from "./go-flags.ts";

/** A flag as the page shows it: `SettingEntry` of the page's contract. */
export interface FlagSetting {
  readonly name: string;
  /** As JSON, without secrets. */
  readonly value: string;
  readonly source: "flag" | "file" | "environment" | "default";
  /** The flag or the variable that gives the value; null = none does. */
  readonly place: string | null;
  readonly change: null;
}

/**
 * Every flag that has an effect, with the origin of its value, sorted.
 * @param explicit names of the flags on the command line
 * @param placeInFile where a file gives the value of a flag; undefined = it does not
 */
export function flagSettings(
  table: readonly FlagRow[],
  { values, explicit }: { readonly values: object; readonly explicit: ReadonlySet<string> },
  env: Readonly<Record<string, string | undefined>>,
  placeInFile: (flag: string) => string | undefined = () => undefined,
): readonly FlagSetting[] {
  const all = values as Readonly<Record<string, unknown>>;
  return table
    .filter(({ inert }) => inert === undefined)
    .map((row): FlagSetting => {
      const { name } = row;
      const inFile = explicit.has(name) ? undefined : placeInFile(name);
      const inEnvironment = row.env !== undefined && Boolean(env[row.env]);
      const source = explicit.has(name)
        ? "flag"
        : inFile !== undefined
          ? "file"
          : inEnvironment
            ? "environment"
            : "default";
      const places = { flag: `--${name}`, file: inFile ?? null, environment: row.env ?? null, default: null };
      return {
        name: `--${name}`,
        value: shownValue(name, all[name] ?? null, row.secret === true),
        source,
        place: places[source],
        change: null,
      };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Every option of a command that has run its parser, with the origin of its value, sorted. */
export function optionSettings(command: Command): readonly FlagSetting[] {
  return command.options
    .map((option): FlagSetting => {
      const key = option.attributeName();
      const isGiven = command.getOptionValueSource(key) === "cli";
      return {
        name: `--${option.name()}`,
        value: shownValue(option.name(), command.getOptionValue(key) ?? null),
        source: isGiven ? "flag" : "default",
        place: isGiven ? `--${option.name()}` : null,
        change: null,
      };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** A value as JSON, without secrets. @param isHidden whatever the name says */
function shownValue(name: string, value: unknown, isHidden = false): string {
  const hides = (isHidden || isSecret(name, value)) && value !== "" && value !== null;
  return withoutKeys(JSON.stringify(hides ? REDACTED : redacted(value)) ?? "null");
}
