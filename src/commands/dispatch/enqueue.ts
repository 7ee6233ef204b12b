import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { command } from "../common/command.ts";
import {
  type PlaceFlags,
  placeOf,
  type RequestFlags,
  requestChoices,
  withPlaceFlags,
  withRequestFlags,
} from "./queue-flags.ts";

interface EnqueueFlags extends PlaceFlags, RequestFlags {
  readonly queue?: string;
  readonly resultQueue?: string;
  readonly id?: string;
  readonly endpoint?: string;
  readonly lines: boolean;
}

/** `sluice enqueue`: requests into a queue; their ids on standard output. */
export function enqueueCommand(): Command {
  const enqueue = withPlaceFlags(
    command("enqueue", "put requests on a queue of the Async Processor; prints their ids, one per line").argument(
      "[input]",
      "a file, - for standard input, or a JSON object: the payload, or a request with a payload in it",
    ),
  )
    .option("--queue <name>", "where to; needed where there are several queues")
    .option("--result-queue <name>", "where its result goes, instead of where results of the queue go")
    .option("--lines", "the input has a request or a payload on every line (JSON Lines)", false)
    .option("--id <id>", "of the request and its result; without it one by chance")
    .option("--endpoint <path>", "path at the gateway, such as /v1/chat/completions, instead of the queue's");
  return withRequestFlags(enqueue, "1h").action(async (input: string | undefined, flags: EnqueueFlags) => {
    if (flags.lines && flags.id !== undefined)
      throw new SluiceError("FLAG_VALUE", "--id is for one request; with --lines each line has its own id, or none");
    const { runEnqueue } = await import("../../async/batch/enqueue.ts");
    await runEnqueue({
      ...requestChoices(flags),
      place: await placeOf(flags),
      ...{ input, lines: flags.lines, queue: flags.queue, resultQueue: flags.resultQueue },
      ...{ id: flags.id, endpoint: flags.endpoint },
    });
  });
}
