import type { Command } from "commander";
import { command, durationOf, STANDARD } from "../common/command.ts";

interface DoctorFlags {
  readonly admin?: string;
  readonly config?: string;
  readonly caCert?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly tokenFile?: string;
  readonly timeout: string;
  readonly askServers: boolean;
  readonly json: boolean;
}

const LEAST_TIMEOUT = 100;

/** `sluice doctor`: says what is wrong with a running gateway, and what to do. */
export function doctorCommand(output = STANDARD): Command {
  return command("doctor", "check a running gateway, its servers and files, and say what to do")
    .option("--admin <address>", "admin port of the gateway; default: the address in --config, else 127.0.0.1:19001")
    .option("--config <file>", "also check this gateway.yaml with its certificates, keys, limits and Redis")
    .option("--ca-cert <file>", "PEM file of the CA of an https:// admin port")
    .option("--cert <file>", "PEM file of the client certificate for an https:// admin port")
    .option("--key <file>", "key of the client certificate")
    .option("--token-file <file>", "file with a bearer token, if the admin port requires one")
    .option("--timeout <duration>", "longest wait for each answer of a model server or of Redis", "3s")
    .option("--no-ask-servers", "do not send requests from this machine to the model servers")
    .option("--json", "print one JSON object", false)
    .addHelpText("after", "\nExit status: 0, also with warnings; 1 when a check fails.")
    .action(async (flags: DoctorFlags) => {
      const timeout = durationOf(flags.timeout, "--timeout", LEAST_TIMEOUT);
      // Loaded on use: `sluice sim` needs none of it.
      const { runDoctor } = await import("./start.ts");
      process.exitCode = await runDoctor({ ...flags, timeout }, output);
    });
}
