import { type DestinationStream, pino } from "pino";
import type { Logger } from "./logger.ts";

export { type Logger, silentLogger } from "./logger.ts";

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "silent";

export interface LoggerOptions {
  /** Wins over `verbosity`. */
  readonly level?: LogLevel;
  /** The EPP's `-v`: 0-1 warnings, 2 default, 3 verbose, 4 debug, 5 and above trace. */
  readonly verbosity?: number;
  /** Goes into every line as `name`. */
  readonly name?: string;
  /** Gets one JSON line per call, newline included. Default: stderr, since stdout belongs to what a command prints. */
  readonly destination?: { write(line: string): void };
}

/** A logger that writes JSON lines: level, ISO time, pid, name, the fields given, `msg`. An `err` field carries its stack. */
export function createLogger(options: LoggerOptions = {}): Logger {
  const destination: DestinationStream = options.destination ?? pino.destination({ fd: 2, sync: true });
  return pino(
    {
      level: options.level ?? levelOfVerbosity(options.verbosity ?? 2),
      base: options.name === undefined ? { pid: process.pid } : { pid: process.pid, name: options.name },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination,
  );
}

/** The level of an EPP `-v` number (scheduling appendix A, epp-protocol 13): below 0 counts as 0, above 5 as 5. */
export function levelOfVerbosity(verbosity: number): LogLevel {
  if (verbosity < 2) return "warn";
  if (verbosity < 4) return "info";
  return verbosity < 5 ? "debug" : "trace";
}
