import type { Command } from "commander";
import { cgroupMemory } from "../../base/process/memory-plan.ts";
import { command } from "../common/command.ts";
import { eppHelp, parseEppFlags } from "./epp-flags.ts";

/**
 * `sluice epp`: the Endpoint Picker. Its flags are those of the reference, in Go's syntax, so commander does not parse them.
 */
export function eppCommand(): Command {
  const epp = command("epp", "the Endpoint Picker behind Envoy's ext_proc filter; takes the reference's flags (--help)")
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .passThroughOptions()
    .argument("[flags...]")
    .action(async (args: string[]) => {
      const options = parseEppFlags(args, process.env, cgroupMemory());
      if (options === "help") {
        process.stdout.write(eppHelp());
        return;
      }
      const { runEpp } = await import("./start.ts");
      process.exitCode = await runEpp(options);
    });
  // `sluice help epp` prints the same as `sluice epp --help`: commander knows none of the flags.
  epp.helpInformation = eppHelp;
  return epp;
}
