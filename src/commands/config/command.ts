import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { command, STANDARD } from "../common/command.ts";
import { belowMessage } from "../common/error-text.ts";

interface ValidateFlags {
  readonly strict: boolean;
  readonly schema: boolean | string;
  readonly kind?: string;
  readonly allowExperimentalPlugins: boolean;
}

/** `sluice validate`: reports whether Sluice accepts each configuration, and the faults of the others. Exit code 0 or 1. */
export function validateCommand(output = STANDARD, stdin: AsyncIterable<Uint8Array> = process.stdin): Command {
  return command(
    "validate",
    "check EndpointPickerConfig, gateway.yaml, dispatch.yaml and endpoints files as Sluice does at its start",
  )
    .argument("[files...]", "YAML or JSON; - = standard input")
    .option(
      "--kind <kind>",
      "kind of the files: picker, gateway, dispatch or endpoints; default: the content of each file decides",
    )
    .option("--strict", "treat warnings as errors, for example about deprecated keys", false)
    .option("--allow-experimental-plugins", "permit alpha plugins, like the same flag of `sluice epp`", false)
    .option(
      "--schema [kind]",
      "print the JSON Schema of picker (default), gateway or dispatch for editors; check no file",
      false,
    )
    .action(async (files: readonly string[], flags: ValidateFlags) => {
      const { schemaText } = await import("./config-tools.ts");
      const { fileKind, validateFile } = await import("./validate-file.ts");
      if (flags.schema !== false) {
        const kind = flags.schema === true ? "picker" : fileKind(String(flags.schema), "--schema");
        if (kind === "endpoints")
          throw new SluiceError(
            "FLAG_VALUE",
            "there is no JSON Schema for endpoints files; docs/use/gateway.md lists their keys",
          );
        output.out(await schemaText(kind));
        return;
      }
      const kind = flags.kind === undefined ? undefined : fileKind(flags.kind, "--kind");
      if (files.length === 0)
        throw new SluiceError("FLAG_MISSING", "give the files to check, - for standard input, or --schema");
      let refused = false;
      for (const name of files) {
        const input = { file: name, allowExperimental: flags.allowExperimentalPlugins, stdin };
        const { file, summary, error, warnings } = await validateFile(input, kind);
        const isStrict = flags.strict && warnings.length > 0;
        for (const warning of warnings) output.err(`${flags.strict ? "error" : "warning"}: ${warning}\n`);
        if (error !== undefined) output.err(`${error.message}\n${belowMessage(error)}`);
        if (isStrict) output.err(`${file} is refused: --strict treats warnings as errors\n`);
        if (summary !== undefined && !isStrict) output.out(`${file}: ok\n  ${summary}\n`);
        else refused = true;
      }
      if (refused) process.exitCode = 1;
    });
}

interface ExplainConfigFlags {
  readonly json: boolean;
  readonly allowExperimentalPlugins: boolean;
}

/** `sluice explain-config`: prints the configuration that a file puts in force, in full, with the source of each value. */
export function explainConfigCommand(output = STANDARD, stdin: AsyncIterable<Uint8Array> = process.stdin): Command {
  return command("explain-config", "print every effective value of an EndpointPickerConfig, and its origin")
    .argument("<file>", "YAML or JSON; - = standard input")
    .option(
      "--json",
      "print one JSON object: config, origins by path, automatic, producers, reads, weights, warnings",
      false,
    )
    .option("--allow-experimental-plugins", "permit alpha plugins, like the same flag of `sluice epp`", false)
    .action(async (file: string, flags: ExplainConfigFlags) => {
      const { explainConfigFile } = await import("./config-tools.ts");
      const input = { file, allowExperimental: flags.allowExperimentalPlugins, stdin };
      const { explained, text } = await explainConfigFile(input);
      output.out(flags.json ? `${JSON.stringify(explained, null, 2)}\n` : text);
    });
}

interface MigrateConfigFlags {
  readonly allowExperimentalPlugins: boolean;
}

/** `sluice migrate-config`: prints an EndpointPickerConfig of any release in the newest form on standard output. */
export function migrateConfigCommand(output = STANDARD, stdin: AsyncIterable<Uint8Array> = process.stdin): Command {
  return command("migrate-config", "print an EndpointPickerConfig of any release in the newest form")
    .argument("<file>", "YAML or JSON; - = standard input")
    .option("--allow-experimental-plugins", "permit alpha plugins, like the same flag of `sluice epp`", false)
    .action(async (file: string, flags: MigrateConfigFlags) => {
      const { migrateConfigFile } = await import("./config-tools.ts");
      const { text, notes } = await migrateConfigFile({
        file,
        allowExperimental: flags.allowExperimentalPlugins,
        stdin,
      });
      for (const note of notes) output.err(`sluice: ${note}\n`);
      output.out(text);
    });
}
