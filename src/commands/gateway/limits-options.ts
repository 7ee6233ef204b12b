import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";

/** The options of `sluice gateway` for limits by key and model. */
export interface LimitsOptions {
  readonly limits?: string;
  readonly limitsRedis?: string;
  readonly limitsCa?: string;
  readonly limitsCert?: string;
  readonly limitsKey?: string;
}

/** Adds the options for limits by key and model. */
export function withLimitsOptions(command: Command): Command {
  return command
    .option("--limits <file>", "limits of requests and tokens by key and model, as YAML or JSON; watched for changes")
    .option(
      "--limits-redis <url>",
      "URL of the Redis or Valkey through which gateways share these limits; absent = the URL in the file, if any, else that of --peers",
    )
    .option(
      "--limits-ca <file>",
      "PEM file of CA certificates that Sluice trusts for that Redis; default: those of the system",
    )
    .option("--limits-cert <file>", "PEM file of the client certificate for that Redis")
    .option("--limits-key <file>", "PEM file of the key of --limits-cert");
}

/** @throws SluiceError FLAG_CONFLICT */
export function checkLimitsFlags(flags: LimitsOptions & { readonly config?: string }): void {
  const { config, limits, limitsRedis, limitsCa, limitsCert, limitsKey } = flags;
  if (limits !== undefined || config !== undefined) return;
  const others = {
    "--limits-redis": limitsRedis,
    "--limits-ca": limitsCa,
    "--limits-cert": limitsCert,
    "--limits-key": limitsKey,
  };
  for (const [flag, value] of Object.entries(others))
    if (value !== undefined)
      throw new SluiceError("FLAG_CONFLICT", `${flag} needs --limits FILE, the limits that gateways share`);
}
