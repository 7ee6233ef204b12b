import { type DestinationStream, pino } from "pino";
import type { Logger } from "./logger.ts";

export { type Logger, silentLogger } from "./logger.ts";

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "silent";

/** JSON lines for machines, or tab-separated lines for people. */
type LogEncoder = "json" | "console";

const nanoEpoch = (): string => `${pino.stdTimeFunctions.epochTime()}000000`;

/** The names that zap gives its time encodings; those of whole units are numbers. */
const TIMES = {
  epoch: pino.stdTimeFunctions.unixTime,
  millis: pino.stdTimeFunctions.epochTime,
  nano: nanoEpoch,
  iso8601: pino.stdTimeFunctions.isoTime,
  rfc3339: pino.stdTimeFunctions.isoTime,
  rfc3339nano: pino.stdTimeFunctions.isoTimeNano,
} as const;

export type LogTime = keyof typeof TIMES;

export interface LoggerOptions {
  /** Wins over `verbosity`. */
  readonly level?: LogLevel | undefined;
  /** The EPP's `-v`: 0-1 warnings, 2 default, 3 verbose, 4 debug, 5 and above trace. */
  readonly verbosity?: number;
  /** Goes into every line as `name`. */
  readonly name?: string;
  /** Default json. */
  readonly encoder?: LogEncoder | undefined;
  /** Default iso8601. */
  readonly time?: LogTime | undefined;
  /** Gets one line per call, newline included. Default: stderr, since the output of a command goes to stdout. */
  readonly destination?: { write(line: string): void };
}

/** A logger whose level can change. Its children keep the level that it had when they were made. */
export interface LevelledLogger extends Logger {
  level: string;
}

/**
 * A logger that writes JSON by default: level, ISO time, pid, name, the given fields, `msg`. An `err` field carries its stack.
 */
export function createLogger(options: LoggerOptions = {}): LevelledLogger {
  const sink: DestinationStream = options.destination ?? pino.destination({ fd: 2, sync: true });
  const destination: DestinationStream =
    options.encoder === "console" ? { write: (line) => sink.write(consoleLine(line)) } : sink;
  return pino(
    {
      level: options.level ?? levelOfVerbosity(options.verbosity ?? 2),
      base: options.name === undefined ? { pid: process.pid } : { pid: process.pid, name: options.name },
      timestamp: TIMES[options.time ?? "iso8601"],
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

/**
 * Turns a JSON log line into one for people: time, level, name and message with tabs between them, then the other fields as
 * JSON, then the stack of an error on lines below. A line that is not a JSON object stays unchanged.
 * @param line with its newline
 */
export function consoleLine(line: string): string {
  let fields: Record<string, unknown>;
  try {
    fields = JSON.parse(line) as Record<string, unknown>;
  } catch {
    return line;
  }
  const { time, level, name, msg, pid: _, err, ...rest } = fields;
  const parts = [time, String(level).toUpperCase(), name, msg].filter((part) => part !== undefined);
  if (Object.keys(rest).length > 0) parts.push(JSON.stringify(rest));
  const stack = (err as { stack?: unknown } | undefined)?.stack;
  return `${parts.join("\t")}\n${stack === undefined ? "" : `${String(stack)}\n`}`;
}
