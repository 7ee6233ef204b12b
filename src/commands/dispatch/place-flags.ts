import type { Command } from "commander";
import type { QueueStoreLocation } from "../../async/batch/queue-store.ts";
import { SluiceError } from "../../base/inference/errors.ts";

/** Options of the commands that work on queues. */
export interface PlaceFlags {
  readonly config?: string;
  readonly redis?: string;
  readonly sqlite?: string;
}

export function withPlaceFlags(command: Command): Command {
  return command
    .option("--config <file>", "the dispatcher's dispatch.yaml: its transport and queues")
    .option("--redis <url>", "instead of --config: a Redis server, redis://host:6379")
    .option("--sqlite <file>", "instead of --config: a queue file that is there");
}

/** @throws SluiceError FLAG_MISSING, FLAG_VALUE; DOCUMENT_... for what is wrong with the file */
export async function placeOf({ config, redis, sqlite }: PlaceFlags): Promise<QueueStoreLocation> {
  const given = [config, redis, sqlite].filter((value) => value !== undefined);
  if (given.length === 0)
    throw new SluiceError("FLAG_MISSING", "where are the queues? Give --config FILE, --redis URL or --sqlite FILE");
  if (given.length > 1)
    throw new SluiceError("FLAG_VALUE", "give one of --config, --redis and --sqlite: they name different places");
  if (redis !== undefined) return { kind: "redis", url: redis };
  if (sqlite !== undefined) return { kind: "sqlite", path: sqlite };
  // Loaded on use: the table of the dispatcher's flags is long.
  const { parseDispatchFlags, transportOf } = await import("./dispatch-flags.ts");
  const { DispatchSettings } = await import("./dispatch-settings.ts");
  const settings = await DispatchSettings.read(parseDispatchFlags(["--config", config!], process.env));
  const { name, document } = await transportOf(settings);
  return { kind: "config", path: config!, transport: { name, document }, redisUrl: process.env["REDIS_URL"] };
}
