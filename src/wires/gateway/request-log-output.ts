import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { openLineTarget } from "../../base/process/line-target.ts";
import { LineWriter } from "../../base/process/line-writer.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { RequestLog } from "../../picker/exchange/request-log.ts";

export interface RequestLogSettings {
  /** One in this many requests that end well gets a line; 0 = none, only those that fail. */
  readonly every: number;
  /** `-` = the standard output. */
  readonly file: string;
}

/** Milliseconds in which the last lines may still be written. */
const LAST_LINES = 1000;
/** Milliseconds between two warnings. */
const WARNINGS = 10_000;

/** A log of requests with its target. */
export interface RequestLogOutput {
  readonly log: RequestLog;
  /** Adds a line without its newline. */
  write(line: string): void;
  /** Sets the counter of dropped lines, which counts from the start. */
  countIn(counter: { inc(lines: number): void }): void;
  close(): Promise<void>;
}

/**
 * Opens the log of requests. SIGHUP opens its file again. A target that takes no lines delays no request: see `LineWriter`.
 * @throws SluiceError REQUEST_LOG_FILE
 */
export function openRequestLog({ every, file }: RequestLogSettings, clock: Clock, log: Logger): RequestLogOutput {
  const target = targetOf(file, clock);
  const warnings = new RateLimitedLog(log, clock, { intervalMs: WARNINGS, maxKeys: 1 });
  let counter: { inc(lines: number): void } | undefined;
  let problem: string | undefined;
  /** Lines that were dropped and not reported yet. */
  let dropped = 0;
  const warn = (): void => {
    const fields = { file, dropped, ...(problem === undefined ? {} : { problem }) };
    const message =
      dropped > 0 ? "the gateway dropped lines of the log of requests" : "the gateway cannot write the log of requests";
    if (!warnings.log("warn", "request-log", fields, message)) return;
    dropped = 0;
    problem = undefined;
  };
  const writer = new LineWriter(clock, target, {
    dropped(lines, error) {
      counter?.inc(lines);
      dropped += lines;
      if (error !== undefined) problem = messageOf(error);
      warn();
    },
    failed(error) {
      problem = messageOf(error);
      warn();
    },
  });
  const onHangup = (): void => target.reopen?.();
  if (file !== "-") process.on("SIGHUP", onHangup);
  const write = (line: string): void => writer.add(line);
  return {
    log: new RequestLog(clock, every, write),
    write,
    countIn(given) {
      counter = given;
    },
    async close() {
      process.off("SIGHUP", onHangup);
      await writer.close(LAST_LINES);
    },
  };
}

function targetOf(file: string, clock: Clock): ReturnType<typeof openLineTarget> {
  try {
    return openLineTarget(file, clock);
  } catch (error) {
    throw new SluiceError("REQUEST_LOG_FILE", `--request-log-file ${file} cannot be opened: ${messageOf(error)}`);
  }
}
