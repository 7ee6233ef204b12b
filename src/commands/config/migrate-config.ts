import type { Command } from "commander";
import { command, STANDARD } from "../common/command.ts";

interface MigrateConfigFlags {
  readonly allowExperimentalPlugins: boolean;
}

/** `sluice migrate-config`: an EndpointPickerConfig of any release in its newest form, on standard output. */
export function migrateConfigCommand(output = STANDARD, stdin: AsyncIterable<Uint8Array> = process.stdin): Command {
  return command("migrate-config", "print an EndpointPickerConfig of any release in its newest form")
    .argument("<file>", "YAML or JSON; - = standard input")
    .option("--allow-experimental-plugins", "permit alpha plugins, as the same flag of `sluice epp` does", false)
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
