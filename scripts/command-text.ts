import type { Command, Option } from "commander";

/** A command as Markdown, below a heading of the second level: how it is called, and its options. */
export function commandMarkdown(command: Command): string {
  const shown = command.options.filter(({ hidden }) => !hidden);
  const names = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? "..." : ""}`;
    return argument.required ? `<${name}>` : `[${name}]`;
  });
  // A part of another command is called by both names.
  const of = command.parent === null ? [] : [command.parent.name()];
  const call = ["sluice", ...of, command.name(), ...names].join(" ");
  return [
    `## \`${call}\``,
    "",
    capital(stopped(command.description())),
    "",
    "| Option | Default | Meaning |",
    "|---|---|---|",
    ...shown.map(
      (option) => `| \`${cell(option.flags)}\` | ${defaultOf(option)} | ${cell(stopped(option.description))} |`,
    ),
    "",
  ].join("\n");
}

/** The default, unless the description tells it. */
function defaultOf({ defaultValue }: Option): string {
  if (defaultValue === undefined || defaultValue === false) return "";
  const text = Array.isArray(defaultValue) ? defaultValue.join(",") : String(defaultValue);
  return text === "" ? "" : `\`${cell(text)}\``;
}

function stopped(text: string): string {
  return text === "" || text.endsWith(".") ? text : `${text}.`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}
