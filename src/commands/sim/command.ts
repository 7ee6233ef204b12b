import { type Command, Option } from "commander";
import { IGNORED_VLLM_FLAGS, parseSimOptions, SIM_OPTIONS, type SimOption } from "../../lab/simulator/options.ts";
import { command } from "../common/command.ts";

/** `sluice sim`: a simulated model server. Its options have the names of vLLM and of vLLM's known simulator. */
export function simCommand(): Command {
  const sim = command("sim", "a simulated model server: HTTP, streaming, metrics, latency, LoRA, faults");
  for (const option of SIM_OPTIONS) sim.addOption(optionOf(option));
  sim.addOption(new Option("--until-stdin-closes").hideHelp());
  // Manifests for vLLM contain these flags, which have no effect here.
  for (const name of IGNORED_VLLM_FLAGS) sim.addOption(new Option(`--${name} [value]`).hideHelp());
  return sim.action(async () => {
    const raw: Record<string, unknown> = {};
    for (const { name } of SIM_OPTIONS) {
      const key = name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
      if (sim.getOptionValueSource(key) === "cli") raw[name] = sim.getOptionValue(key);
    }
    const untilStdinCloses = sim.getOptionValue("untilStdinCloses") === true;
    const { runSim } = await import("./start.ts");
    process.exitCode = await runSim(parseSimOptions(raw, process.env), untilStdinCloses);
  });
}

function optionOf({ name, type, help, default: fallback }: SimOption): Option {
  const shown =
    Array.isArray(fallback) || fallback === "" ? "" : ` (default: ${type === "duration" ? `${fallback}ms` : fallback})`;
  const value = type === "boolean" ? "[true|false]" : type === "list" ? "<values...>" : `<${type}>`;
  const option = new Option(`--${name} ${value}`, help + shown);
  return type === "boolean" ? option.preset("true") : option;
}
