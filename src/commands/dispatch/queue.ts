import type { Command } from "commander";
import { command, wholeNumber } from "../common/command.ts";
import { type PlaceFlags, placeOf, withPlaceFlags } from "./queue-flags.ts";

/** Entries that are shown at most. */
const MOST_SHOWN = 1000;

/** `sluice queue`: looks into queues and mends them. */
export function queueCommand(): Command {
  const queue = command("queue", "look into the queues of the Async Processor, and mend them");
  for (const make of [listCommand, peekCommand, cancelCommand, requeueCommand]) queue.addCommand(make());
  return queue;
}

function listCommand(): Command {
  return withPlaceFlags(part("ls", "what waits, is claimed, parked and dead in each queue, and how many results wait"))
    .argument("[queues...]", "those alone")
    .option("--json", "print one JSON document", false)
    .action(async (names: string[], flags: PlaceFlags & { readonly json: boolean }) => {
      const { listQueues } = await import("../../async/batch/queue-tools.ts");
      await listQueues(await placeOf(flags), names, flags.json);
    });
}

function peekCommand(): Command {
  return withPlaceFlags(part("peek", "the first entries of a queue in the order they will be sent; nothing is taken"))
    .argument("<queue>")
    .option("-n <count>", `how many, up to ${MOST_SHOWN}`, "10")
    .option("--dead", "its oldest dead letters instead, with the reasons", false)
    .option("--json", "JSON lines with the entries in them", false)
    .action(async (name: string, flags: PlaceFlags & { n: string; dead: boolean; json: boolean }) => {
      const { peekQueue } = await import("../../async/batch/queue-tools.ts");
      const count = wholeNumber(flags.n, "-n", 1, MOST_SHOWN);
      await peekQueue(await placeOf(flags), name, { count, dead: flags.dead, json: flags.json });
    });
}

function cancelCommand(): Command {
  return withPlaceFlags(part("cancel", "cancel requests that were not sent yet"))
    .argument("<ids...>", "of the requests")
    .action(async (ids: string[], flags: PlaceFlags) => {
      const { cancelRequests } = await import("../../async/batch/queue-tools.ts");
      await cancelRequests(await placeOf(flags), ids);
    });
}

function requeueCommand(): Command {
  return withPlaceFlags(part("requeue", "put dead letters back into their queue, the oldest first"))
    .argument("<queue>")
    .option("-n <count>", "how many; without it all")
    .action(async (name: string, flags: PlaceFlags & { n?: string }) => {
      const { requeueDead } = await import("../../async/batch/queue-tools.ts");
      const most = flags.n === undefined ? undefined : wholeNumber(flags.n, "-n", 1, 1_000_000_000);
      await requeueDead(await placeOf(flags), name, most);
    });
}

function part(name: string, description: string): Command {
  return command(name, description, "queue");
}
