import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { command, durationOf, wholeNumber } from "../common/command.ts";
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

/** `sluice enqueue`: puts requests into a queue and prints their ids on standard output. */
export function enqueueCommand(): Command {
  const enqueue = withPlaceFlags(
    command("enqueue", "put requests on a queue of the Async Processor; prints their ids, one per line").argument(
      "[input]",
      "a file, - for standard input, or a JSON object: the payload, or a request with a payload in it",
    ),
  )
    .option("--queue <name>", "the queue; required if several queues exist")
    .option("--result-queue <name>", "the queue for the result, instead of the result queue of the request queue")
    .option("--lines", "the input has a request or a payload on every line (JSON Lines)", false)
    .option("--id <id>", "id of the request and its result; default: a random id")
    .option("--endpoint <path>", "path at the gateway, such as /v1/chat/completions, instead of the queue's");
  return withRequestFlags(enqueue, "1h").action(async (input: string | undefined, flags: EnqueueFlags) => {
    if (flags.lines && flags.id !== undefined)
      throw new SluiceError(
        "FLAG_VALUE",
        "--id works for one request only; with --lines, each line may have its own id",
      );
    const { runEnqueue } = await import("../../async/batch/enqueue.ts");
    await runEnqueue({
      ...requestChoices(flags),
      place: await placeOf(flags),
      ...{ input, lines: flags.lines, queue: flags.queue, resultQueue: flags.resultQueue },
      ...{ id: flags.id, endpoint: flags.endpoint },
    });
  });
}

interface ResultsFlags extends PlaceFlags {
  readonly queue?: string;
  readonly count?: string;
  readonly follow: boolean;
  readonly timeout: string;
  readonly payload: boolean;
}

/** `sluice results`: takes results from a queue. */
export function resultsCommand(): Command {
  return withPlaceFlags(command("results", "take results from a result queue and print them, one JSON object per line"))
    .option("--queue <name>", "the result queue; default: the result queue of the transport (result-list)")
    .option("--count <number>", "number of results to take; exit status 1 if fewer arrive")
    .option(
      "--timeout <duration>",
      "end after this time without a result; 0s = take only the results that exist",
      "10s",
    )
    .option("--follow", "wait for further results until Ctrl-C", false)
    .option("--payload", "print only the payloads", false)
    .action(async (flags: ResultsFlags) => {
      const { runResults } = await import("../../async/batch/results.ts");
      process.exitCode = await runResults({
        place: await placeOf(flags),
        queue: flags.queue,
        count: flags.count === undefined ? undefined : wholeNumber(flags.count, "--count", 1, 1_000_000_000),
        timeout: durationOf(flags.timeout, "--timeout", 0),
        follow: flags.follow,
        payload: flags.payload,
      });
    });
}

/** The most entries in a list. */
const MOST_SHOWN = 1000;

/** `sluice queue`: shows and repairs queues. */
export function queueCommand(): Command {
  const queue = command("queue", "inspect and repair the queues of the Async Processor");
  for (const make of [listCommand, peekCommand, cancelCommand, requeueCommand, releaseCommand])
    queue.addCommand(make());
  return queue;
}

function listCommand(): Command {
  return withPlaceFlags(
    part("ls", "count the messages of each queue (waiting, claimed, retries, dead) and the waiting results"),
  )
    .argument("[queues...]", "only these queues")
    .option("--json", "print one JSON document", false)
    .action(async (names: string[], flags: PlaceFlags & { readonly json: boolean }) => {
      const { listQueues } = await import("../../async/batch/queue-tools.ts");
      await listQueues(await placeOf(flags), names, flags.json);
    });
}

function peekCommand(): Command {
  return withPlaceFlags(part("peek", "print the next entries of a queue, without taking them"))
    .argument("<queue>")
    .option("-n <count>", `number of entries, up to ${MOST_SHOWN}`, "10")
    .option("--dead", "print the oldest dead letters instead, with their reasons", false)
    .option("--json", "print JSON lines that contain the entries", false)
    .action(async (name: string, flags: PlaceFlags & { n: string; dead: boolean; json: boolean }) => {
      const { peekQueue } = await import("../../async/batch/queue-tools.ts");
      const count = wholeNumber(flags.n, "-n", 1, MOST_SHOWN);
      await peekQueue(await placeOf(flags), name, { count, dead: flags.dead, json: flags.json });
    });
}

function cancelCommand(): Command {
  return withPlaceFlags(part("cancel", "cancel unsent requests"))
    .argument("<ids...>", "ids of the requests")
    .action(async (ids: string[], flags: PlaceFlags) => {
      const { cancelRequests } = await import("../../async/batch/queue-tools.ts");
      await cancelRequests(await placeOf(flags), ids);
    });
}

function requeueCommand(): Command {
  return withPlaceFlags(part("requeue", "put dead letters back into their queue, the oldest first"))
    .argument("<queue>")
    .option("-n <count>", "number of dead letters; default: all")
    .action(async (name: string, flags: PlaceFlags & { n?: string }) => {
      const { requeueDead } = await import("../../async/batch/queue-tools.ts");
      const most = flags.n === undefined ? undefined : wholeNumber(flags.n, "-n", 1, 1_000_000_000);
      await requeueDead(await placeOf(flags), name, most);
    });
}

function releaseCommand(): Command {
  return withPlaceFlags(
    part(
      "release",
      "put claimed messages and retries back into their queues, for programs without leases; refuses while a dispatcher runs",
    ),
  )
    .argument("[queues...]", "only these queues")
    .option("--keep-retries", "leave retries until they are due", false)
    .option(
      "--force",
      "also take messages from a dispatcher that hangs or still has leases; these messages may be sent twice",
      false,
    )
    .action(async (names: string[], flags: PlaceFlags & { readonly keepRetries: boolean; readonly force: boolean }) => {
      const { releaseMessages } = await import("../../async/batch/queue-tools.ts");
      await releaseMessages(await placeOf(flags), names, { force: flags.force, keepRetries: flags.keepRetries });
    });
}

function part(name: string, description: string): Command {
  return command(name, description, "sluice queue");
}

interface BatchFlags extends PlaceFlags, RequestFlags {
  readonly queue?: string;
  readonly concurrency: string;
  readonly skipInvalid: boolean;
}

/** `sluice batch`: sends a file of requests through the Async Processor and writes a file of answers. */
export function batchCommand(): Command {
  const batch = withPlaceFlags(
    command(
      "batch",
      "send a batch file (OpenAI's format) through the Async Processor, or continue it; ls, show, cancel: batches of the Batch API",
    )
      .argument("<in.jsonl>", 'input with lines {"custom_id", "method": "POST", "url": "/v1/...", "body": {...}}')
      .argument(
        "<out.jsonl>",
        'output with, for each line of the input, one line {"id", "custom_id", "response", "error"}',
      ),
  )
    .option("--queue <name>", "the queue; required if several queues exist")
    .option(
      "--concurrency <number>",
      "the most requests queued or running; the gates of the dispatcher decide how many run",
      "1000",
    )
    .option("--skip-invalid", "write an error for each invalid line, instead of refusing the file", false);
  return withRequestFlags(batch, "24h").action(async (inputPath: string, outputPath: string, flags: BatchFlags) => {
    const { runBatch } = await import("../../async/batch/batch.ts");
    process.exitCode = await runBatch({
      ...requestChoices(flags),
      place: await placeOf(flags),
      queue: flags.queue,
      ...{ inputPath, outputPath, skipInvalid: flags.skipInvalid },
      window: wholeNumber(flags.concurrency, "--concurrency", 1, 1_000_000),
    });
  });
}
