import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { command, durationOf, STANDARD } from "../common/command.ts";

interface TopFlags {
  readonly admin?: string;
  readonly caCert?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly tokenFile?: string;
  readonly interval: string;
  readonly once: boolean;
  readonly json: boolean;
}

/** The shortest interval in milliseconds: the process has new figures once a second. */
const LEAST_INTERVAL = 1000;

/** `sluice top`: the overview of a running process in the terminal. */
export function topCommand(output = STANDARD): Command {
  return command("top", "watch a running gateway, picker, dispatcher or batch server in the terminal")
    .option(
      "--admin <address>",
      "admin port of a running sluice gateway, epp or batch-server, or metrics port of a dispatch; default: 127.0.0.1:9090, then 127.0.0.1:19001",
    )
    .option("--ca-cert <file>", "PEM file of the CA of an https:// admin port")
    .option("--cert <file>", "PEM file of the client certificate for an https:// admin port")
    .option("--key <file>", "key of the client certificate")
    .option("--token-file <file>", "file with a bearer token, if the admin port requires one, as in Kubernetes")
    .option("--interval <duration>", "time between two polls, 1s or more", "1s")
    .option("--once", "print one screen and exit", false)
    .option("--json", "print one JSON object for each poll", false)
    .action(async (flags: TopFlags) => {
      const interval = durationOf(flags.interval, "--interval", LEAST_INTERVAL);
      if (flags.once && flags.interval !== "1s")
        throw new SluiceError("FLAG_CONFLICT", "--once polls once: remove --interval");
      // Loaded on use: `sluice sim` needs none of it.
      const { watchProcess } = await import("./start.ts");
      const { admin, caCert, cert, key, tokenFile, once, json } = flags;
      await watchProcess({ access: { admin, caCert, cert, key, tokenFile }, interval, once, json, output });
    });
}
