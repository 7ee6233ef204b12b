import type { Command } from "commander";
import type { DeadlineChoice, RequestChoices } from "../../async/batch/enqueue.ts";
import type { QueueStoreLocation } from "../../async/batch/queue-store.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { collect, durationOf } from "../common/command.ts";

/** Options of the commands that work on queues. */
export interface PlaceFlags {
  readonly config?: string;
  readonly redis?: string;
  readonly sqlite?: string;
}

/** Adds the flags that say where the queues are; `placeOf` reads them. */
export function withPlaceFlags(command: Command): Command {
  return command
    .option("--config <file>", "the dispatcher's dispatch.yaml: its transport and queues")
    .option("--redis <url>", "instead of --config: a Redis server, redis://host:6379")
    .option("--sqlite <file>", "instead of --config: an existing queue file");
}

/** @throws SluiceError FLAG_MISSING, FLAG_VALUE; DOCUMENT_... for a fault in the file */
export async function placeOf({ config, redis, sqlite }: PlaceFlags): Promise<QueueStoreLocation> {
  const given = [config, redis, sqlite].filter((value) => value !== undefined);
  if (given.length === 0)
    throw new SluiceError(
      "FLAG_MISSING",
      "the place of the queues is missing: give --config FILE, --redis URL or --sqlite FILE",
    );
  if (given.length > 1)
    throw new SluiceError("FLAG_VALUE", "give only one of --config, --redis and --sqlite: they name different places");
  if (redis !== undefined) return { kind: "redis", url: redis };
  if (sqlite !== undefined) return { kind: "sqlite", path: sqlite };
  // Loaded on use: the table of the dispatcher's flags is long.
  const { parseDispatchFlags, transportOf } = await import("./dispatch-flags.ts");
  const { DispatchSettings } = await import("./dispatch-settings.ts");
  const settings = await DispatchSettings.read(parseDispatchFlags(["--config", config!], process.env));
  const { name, document } = await transportOf(settings);
  return { kind: "config", path: config!, transport: { name, document }, redisUrl: process.env["REDIS_URL"] };
}

/** Options of the commands that submit requests. */
export interface RequestFlags {
  readonly deadline: string;
  readonly deadlineAt?: string;
  readonly metadata: readonly string[];
  readonly header: readonly string[];
  readonly label: readonly string[];
}

/** @param deadline default of --deadline */
export function withRequestFlags(command: Command, deadline: string): Command {
  return command
    .option(
      "--deadline <duration>",
      "time from now to the deadline; a request without a result ends with DEADLINE_EXCEEDED",
      deadline,
    )
    .option("--deadline-at <time>", "the deadline as a time: Unix seconds, or 2030-01-31T18:00:00Z")
    .option("--metadata <k=v>", "metadata of every request, for gates and transforms; repeatable", collect, [])
    .option("--header <k=v>", "HTTP header of every request; repeatable", collect, [])
    .option("--label <k=v>", "label for gates and merge policies, such as tier=gold; repeatable", collect, []);
}

/** @throws SluiceError FLAG_VALUE */
export function requestChoices(flags: RequestFlags): RequestChoices {
  return {
    deadline: deadlineOf(flags),
    metadata: pairsOf(flags.metadata, "--metadata"),
    headers: pairsOf(flags.header, "--header"),
    labels: pairsOf(flags.label, "--label"),
  };
}

function deadlineOf({ deadline, deadlineAt }: RequestFlags): DeadlineChoice {
  if (deadlineAt === undefined) return { kind: "in", ms: durationOf(deadline, "--deadline", 1000) };
  const seconds = momentOf(deadlineAt);
  if (!Number.isNaN(seconds)) return { kind: "at", seconds, text: deadlineAt };
  const problem = /^\d{12,}$/.test(deadlineAt)
    ? "in seconds, not milliseconds"
    : "Unix seconds or 2030-01-31T18:00:00Z";
  throw new SluiceError("FLAG_VALUE", `--deadline-at is "${deadlineAt}"; give a time: ${problem}`);
}

/** Unix seconds; NaN when the text is not a time. */
function momentOf(text: string): number {
  if (/^\d{1,11}$/.test(text)) return Number(text);
  // A date alone, or a time without a zone, would mean another time on another machine.
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)
    ? Math.floor(Date.parse(text) / 1000)
    : Number.NaN;
}

function pairsOf(texts: readonly string[], flag: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf("=");
      if (at < 1) throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give a name and a value, NAME=VALUE`);
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}
