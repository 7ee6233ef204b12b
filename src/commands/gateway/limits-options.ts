import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";

/** The options of `sluice gateway` for limits by key and model. */
export interface LimitsOptions {
  readonly limits?: string;
  readonly limitsRedis?: string;
}

/** Adds the options for limits by key and model. */
export function withLimitsOptions(command: Command): Command {
  return command
    .option("--limits <file>", "limits of requests and tokens by key and model, as YAML or JSON; watched for changes")
    .option(
      "--limits-redis <url>",
      "URL of the Redis or Valkey through which gateways share these limits; absent = the URL in the file, if any",
    );
}

/** @throws SluiceError FLAG_CONFLICT */
export function checkLimitsFlags({ config, limits, limitsRedis }: LimitsOptions & { readonly config?: string }): void {
  if (limitsRedis !== undefined && limits === undefined && config === undefined)
    throw new SluiceError("FLAG_CONFLICT", "--limits-redis needs --limits FILE, the limits that gateways share");
}
