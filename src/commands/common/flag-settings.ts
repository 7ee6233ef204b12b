import { redacted, withoutKeys } from "../../base/inference/secrets.ts";
import type { FlagRow } from "./go-flags.ts";

/** A flag as the page shows it: `SettingEntry` of the page's contract. */
export interface FlagSetting {
  readonly name: string;
  /** As JSON, without secrets. */
  readonly value: string;
  readonly source: "flag" | "environment" | "default";
  /** The flag or the variable that gives the value; null = none does. */
  readonly place: string | null;
  readonly change: null;
}

/** A flag whose value is a secret. */
const SECRET = /(password|passwd|secret|token|credential|authorization|api-?key)s?$/i;

/** Every flag that has an effect, with the origin of its value, sorted. */
export function flagSettings(
  table: readonly FlagRow[],
  { values, explicit }: { readonly values: object; readonly explicit: ReadonlySet<string> },
  env: Readonly<Record<string, string | undefined>>,
): readonly FlagSetting[] {
  const all = values as Readonly<Record<string, unknown>>;
  return table
    .filter(({ inert }) => inert === undefined)
    .map((row): FlagSetting => {
      const { name } = row;
      const source = explicit.has(name) ? "flag" : row.env !== undefined && env[row.env] ? "environment" : "default";
      const value = all[name] ?? null;
      const shown = SECRET.test(name) && value !== "" && value !== null ? "REDACTED" : redacted(value);
      return {
        name: `--${name}`,
        value: withoutKeys(JSON.stringify(shown) ?? "null"),
        source,
        place: source === "flag" ? `--${name}` : source === "environment" ? row.env! : null,
        change: null,
      };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}
