import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { collect, command, durationOf, STANDARD } from "../common/command.ts";

interface InitFlags {
  readonly from: readonly string[];
  readonly out: string;
  readonly listen: string;
  readonly admin: string;
  readonly timeout: string;
  readonly force: boolean;
}

const LEAST_TIMEOUT = 100;

/** `sluice init`: asks model servers what they are, and writes a gateway.yaml for them. */
export function initCommand(output = STANDARD): Command {
  return command("init", "ask model servers for their engine, models and metrics, and write a gateway.yaml for them")
    .argument("[urls...]", "the servers, for example http://10.0.0.1:8000 10.0.0.2:8000")
    .option("--from <hosts:ports>", "several servers, for example 'gpu[01-04]:8000-8003'; repeatable", collect, [])
    .option("--out <file>", "the file to write", "gateway.yaml")
    .option("--listen <address>", "address of the gateway for clients", "127.0.0.1:8080")
    .option("--admin <address>", "address of the gateway's admin port", "127.0.0.1:19001")
    .option("--timeout <duration>", "longest wait for each answer of a server", "5s")
    .option("--force", "replace the file when it exists", false)
    .addHelpText("after", "\nExit status: 0; 1 when a server does not answer (the command still writes the file).")
    .action(async (urls: readonly string[], flags: InitFlags) => {
      if (urls.length + flags.from.length === 0)
        throw new SluiceError("FLAG_MISSING", "give the URLs of the model servers, for example http://10.0.0.1:8000");
      const timeout = durationOf(flags.timeout, "--timeout", LEAST_TIMEOUT);
      // Loaded on use: `sluice sim` needs none of it.
      const { runInit } = await import("./start.ts");
      process.exitCode = await runInit({ ...flags, urls, timeout }, output);
    });
}
