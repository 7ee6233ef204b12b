import { type Command, Option } from "commander";
import type { DispatchOptions } from "../../async/dispatch/config/options.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { createLogger } from "../../base/telemetry/logging.ts";
import { command } from "../common/command.ts";
import { belowMessage } from "../common/error-text.ts";
import { dispatchHelp } from "./dispatch-flag-table.ts";
import type { DispatchShown } from "./start.ts";

/** The effects of the command other than files. */
interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  stdout(text: string): void;
  stderr(text: string): void;
  /** @returns the exit status */
  run(options: DispatchOptions & DispatchShown): Promise<number>;
}

/**
 * `sluice dispatch`: the Async Processor. Its flags are those of the reference, in Go's syntax, so commander does not parse
 * them.
 */
export function dispatchCommand(): Command {
  const dispatch = command(
    "dispatch",
    "the Async Processor: send queued requests into spare capacity; takes the reference's flags (--help)",
  )
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .passThroughOptions()
    .addOption(new Option("--until-stdin-closes").hideHelp())
    .argument("[flags...]")
    .action(async (args: string[], { untilStdinCloses }: { readonly untilStdinCloses?: boolean }) => {
      // The process at the other end of stdin is gone. Messages in work return to their queue when their leases expire.
      if (untilStdinCloses === true) process.stdin.resume().once("end", () => process.exit(1));
      process.exitCode = await runDispatch(args, {
        env: process.env,
        stdout: (text) => void process.stdout.write(text),
        stderr: (text) => void process.stderr.write(text),
        run: async (options) => (await import("./start.ts")).runDispatcher(options),
      });
      if (untilStdinCloses === true) process.stdin.pause();
    });
  // `sluice help dispatch` prints the same as `sluice dispatch --help`: commander knows none of the flags.
  dispatch.helpInformation = dispatchHelp;
  return dispatch;
}

/**
 * @returns the exit status: 1 for an illegal combination of flags, as in the reference
 * @throws SluiceError for an unreadable command line, for faults in files, and for other reasons why the dispatcher cannot start
 */
export async function runDispatch(
  args: readonly string[],
  { env, stdout, stderr, run }: Surroundings,
): Promise<number> {
  // Loaded on use: the other commands need none of it.
  const { dispatchLogging, dispatchOptionsOf, parseDispatchFlags } = await import("./dispatch-flags.ts");
  const line = parseDispatchFlags(args, env);
  if (line.help) {
    stdout(dispatchHelp());
    return 0;
  }
  let { logging } = dispatchLogging(line.values, line.explicit, env);
  const log = () => createLogger({ ...logging, name: "setup", destination: { write: stderr } });
  try {
    const { options, warnings, flags, settings } = await dispatchOptionsOf(line, env);
    logging = options.logging;
    const started = log();
    started.info({ flags }, "flags in force");
    for (const warning of warnings) started.warn({}, warning);
    return await run({ ...options, settings, warnings });
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    if (error.code.startsWith("FLAG_")) {
      const head = error.code === "FLAG_MISSING" ? "" : "invalid configuration: ";
      stderr(`${head}${error.message}\n${belowMessage(error)}`);
      return 1;
    }
    log().error({ error: error.message }, "Runner failed");
    throw error;
  }
}
