import type { Command } from "commander";
import { command, durationOf, wholeNumber } from "../common/command.ts";
import { type PlaceFlags, placeOf, withPlaceFlags } from "./queue-flags.ts";

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
    .option("--queue <name>", "the result queue; without it the transport's (result-list)")
    .option("--count <number>", "how many; exit status 1 when fewer came")
    .option("--timeout <duration>", "ends when none has come for so long; 0s = takes only what is there", "10s")
    .option("--follow", "wait for more until Ctrl-C", false)
    .option("--payload", "print the payloads alone", false)
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
