import type { Command } from "commander";
import { command, wholeNumber } from "../common/command.ts";
import {
  type PlaceFlags,
  placeOf,
  type RequestFlags,
  requestChoices,
  withPlaceFlags,
  withRequestFlags,
} from "./queue-flags.ts";

interface BatchFlags extends PlaceFlags, RequestFlags {
  readonly queue?: string;
  readonly concurrency: string;
  readonly skipInvalid: boolean;
}

/** `sluice batch`: a file of requests through the Async Processor into a file of answers. */
export function batchCommand(): Command {
  const batch = withPlaceFlags(
    command("batch", "send a batch file (OpenAI's format) through the Async Processor; started again it goes on")
      .argument("<in.jsonl>", 'lines {"custom_id", "method": "POST", "url": "/v1/...", "body": {...}}')
      .argument("<out.jsonl>", 'gets a line {"id", "custom_id", "response", "error"} for each'),
  )
    .option("--queue <name>", "where to; needed where there are several queues")
    .option(
      "--concurrency <number>",
      "requests queued or running at a time; the dispatcher sends as many as it may",
      "1000",
    )
    .option("--skip-invalid", "answer lines that cannot be sent with an error, instead of refusing the file", false);
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
