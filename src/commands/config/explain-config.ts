import type { Command } from "commander";
import { command, STANDARD } from "../common/command.ts";

interface ExplainConfigFlags {
  readonly json: boolean;
  readonly allowExperimentalPlugins: boolean;
}

/** `sluice explain-config`: the configuration in force with a file, spelt out, and where each value of it comes from. */
export function explainConfigCommand(output = STANDARD, stdin: AsyncIterable<Uint8Array> = process.stdin): Command {
  return command("explain-config", "print what an EndpointPickerConfig amounts to, and where each value comes from")
    .argument("<file>", "YAML or JSON; - = standard input")
    .option(
      "--json",
      "as one JSON object: config, origins by path, automatic, producers, reads, weights, warnings",
      false,
    )
    .option("--allow-experimental-plugins", "permit alpha plugins, as the same flag of `sluice epp` does", false)
    .action(async (file: string, flags: ExplainConfigFlags) => {
      const { explainConfigFile } = await import("./config-tools.ts");
      const input = { file, allowExperimental: flags.allowExperimentalPlugins, stdin };
      const { explained, text } = await explainConfigFile(input);
      output.out(flags.json ? `${JSON.stringify(explained, null, 2)}\n` : text);
    });
}
