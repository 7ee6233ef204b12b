import type { Command } from "commander";
import { parseDuration } from "../../base/document/duration.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { command, wholeNumber } from "../common/command.ts";

interface DemoFlags {
  readonly servers: string;
  readonly duration?: string;
  readonly json: boolean;
  readonly seed: string;
  readonly killAt?: string;
  readonly async: boolean;
}

/** Shortest duration of the demo in milliseconds: two halves, or three acts with --async, must fit. */
const LEAST_MS = 6000;
const LEAST_ASYNC_MS = 15_000;

/** `sluice demo`: simulators, gateway, traffic and the admin page. */
export function demoCommand(): Command {
  return command("demo", "start simulated model servers, the gateway and live traffic, and show where requests go")
    .option("--servers <number>", "number of simulated model servers", "3")
    .option("--async", "also send a backlog of queued requests, which yields to realtime traffic", false)
    .option("--duration <time>", "length of the demo, for example 20s; without it the demo runs until Ctrl-C")
    .option("--json", "print progress on stderr, and one JSON line of figures on stdout at the end", false)
    .option("--seed <number>", "the same seed gives the same requests", "1")
    .option(
      "--kill-at <time>",
      "kill one server this long after the start, for example 14s; the server returns after 3 s",
    )
    .action(async (flags: DemoFlags) => {
      const durationMs = flags.duration === undefined ? undefined : time(flags.duration, "--duration");
      const least = flags.async ? LEAST_ASYNC_MS : LEAST_MS;
      if (durationMs !== undefined && durationMs < least)
        throw new SluiceError("FLAG_VALUE", `--duration is ${flags.duration}; give at least ${least / 1000}s`);
      const killAtMs = flags.killAt === undefined ? undefined : time(flags.killAt, "--kill-at");
      if (killAtMs !== undefined && flags.async)
        throw new SluiceError(
          "FLAG_CONFLICT",
          "--kill-at does not work with --async: there the demo kills the dispatcher",
        );
      if (killAtMs !== undefined && durationMs !== undefined && killAtMs >= durationMs)
        throw new SluiceError("FLAG_VALUE", `--kill-at ${flags.killAt} is not within --duration ${flags.duration}`);
      const options = {
        servers: wholeNumber(flags.servers, "--servers", 1, 16),
        durationMs,
        json: flags.json,
        seed: wholeNumber(flags.seed, "--seed", 0, 0xffffffff),
        program: [process.execPath, ...process.execArgv, process.argv[1]!],
      };
      if (flags.async) process.exitCode = await (await import("../../lab/demo/async/run.ts")).runAsyncDemo(options);
      else process.exitCode = await (await import("../../lab/demo/run.ts")).runDemo({ ...options, killAtMs });
    });
}

function time(text: string, flag: string): number {
  try {
    return parseDuration(text);
  } catch {
    throw new SluiceError("FLAG_VALUE", `${flag} is "${text}"; give a time such as 20s or 1m30s`);
  }
}
