import type { FlagRow } from "./go-flags.ts";

/** The flags that have an effect, for a terminal: name, value and default, with the explanation below. */
export function flagsHelp(table: readonly FlagRow[]): string {
  return table
    .filter(({ inert }) => inert === undefined)
    .map((row) => `  ${dashed(row.name)}${placeholder(row)}\n        ${row.help}${defaultOf(row)}\n`)
    .join("");
}

/** The flags as Markdown: those that have an effect, then those that Sluice accepts without effect. */
export function flagsMarkdown(table: readonly FlagRow[]): string {
  const active = table.filter(({ inert }) => inert === undefined);
  const rows = active.map(
    (row) =>
      `| ${names(row)} | ${typeOf(row)} | ${code(row.default)} | ${row.since} | ${cell(row.help)}${envOf(row)}${deprecatedIn(row)} |`,
  );
  const inert = table.flatMap((row) => {
    if (row.inert === undefined) return [];
    const harmless = (row.inert.harmless ?? []).map((value) => code(value) || "empty").join(", ");
    const treated = row.inert.otherwise === "warn" ? "accepted with a warning" : "refused";
    return [`| ${names(row)} | ${row.since} | ${harmless} | ${treated} | ${cell(row.inert.because)} |`];
  });
  return [
    "| Flag | Type | Default | Since | Meaning |",
    "|---|---|---|---|---|",
    ...rows,
    "",
    "Flags of the reference that have no effect in Sluice. Values that ask for the normal behaviour cause no warning.",
    "",
    "| Flag | Since | Values without a warning | Other values | Reason: the flag |",
    "|---|---|---|---|---|",
    ...inert,
    "",
  ].join("\n");
}

/** Flags that other flags have replaced, as Markdown. */
export function legacyMarkdown(table: readonly (FlagRow & { readonly instead: string })[]): string {
  const rows = table.map(
    (row) =>
      `| ${names(row)} | ${typeOf(row)} | ${code(row.default)} | ${row.since} | ${cell(row.help)}${envOf(row)} | ${cell(row.instead)} |`,
  );
  return ["| Flag | Type | Default | Since | Meaning | Now |", "|---|---|---|---|---|---|", ...rows, ""].join("\n");
}

function placeholder({ type, takes, choices }: FlagRow): string {
  if (type === "bool") return "[=true|false]";
  const shown = choices?.filter((choice) => choice !== "").join("|");
  return ` ${takes ?? shown ?? type.toUpperCase()}`;
}

function typeOf({ type, choices }: FlagRow): string {
  return choices === undefined ? type : choices.map(code).filter(Boolean).join(", ");
}

function dashed(name: string): string {
  return name.length === 1 ? `-${name}` : `--${name}`;
}

function defaultOf(row: FlagRow): string {
  return row.default === "" ? "" : ` (default ${row.default})`;
}

function envOf({ env }: FlagRow): string {
  return env === undefined ? "" : ` Environment: ${code(env)}.`;
}

function deprecatedIn({ deprecated }: FlagRow): string {
  return deprecated === undefined ? "" : ` Deprecated: ${deprecated}.`;
}

function names({ name, aliases }: FlagRow): string {
  return [name, ...(aliases ?? [])].map((spelling) => code(dashed(spelling))).join(", ");
}

function code(text: string): string {
  return text === "" ? "" : `\`${cell(text)}\``;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}
