import { SluiceError } from "../../base/inference/errors.ts";
import { type LoggerOptions, type LogLevel, levelOfVerbosity } from "../../base/telemetry/logging.ts";
import type { FlagRow, GivenFlags } from "./go-flags.ts";

/** Flags for logging, with the names of the reference's libraries (epp-protocol 13.2, 13.3). */
export const LOG_FLAGS = [
  {
    name: "v",
    type: "int",
    default: "2",
    since: "v0.3",
    help: "Log verbosity: 2 default, 3 verbose, 4 debug, 5 trace.",
  },
  {
    name: "zap-encoder",
    type: "string",
    choices: ["json", "console"],
    default: "json",
    since: "v0.3",
    help: "Format of log lines: JSON, or text with tabs between the parts.",
  },
  {
    name: "zap-log-level",
    takes: "debug|info|error|panic|NUMBER",
    type: "string",
    default: "",
    since: "v0.3",
    help: "Lowest level of log lines; a number of 1 or more is a verbosity. Overrides -v.",
  },
  {
    name: "zap-devel",
    type: "bool",
    default: "false",
    since: "v0.3",
    help: "true = --zap-encoder=console, unless --zap-encoder is given.",
  },
  {
    name: "zap-time-encoding",
    type: "string",
    choices: ["", "epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"],
    default: "",
    since: "v0.3",
    help: "Format of the time of a log line; default: iso8601.",
  },
  {
    name: "zap-stacktrace-level",
    type: "string",
    choices: ["", "info", "error", "panic"],
    default: "",
    since: "v0.3",
    help: "Lowest level of log lines with a stack trace.",
    inert: {
      harmless: [""],
      otherwise: "warn",
      because: "has no effect: a logged error has its own stack trace",
    },
  },
] as const satisfies readonly FlagRow[];

const LEVELS: ReadonlyMap<string, LogLevel> = new Map([
  ["debug", "debug"],
  ["info", "info"],
  ["error", "error"],
  // Sluice logs nothing at that level.
  ["panic", "silent"],
]);

/**
 * The logger settings of the flags.
 * @throws SluiceError FLAG_VALUE for an unknown level
 */
export function loggingOf({
  values,
  explicit,
}: GivenFlags<typeof LOG_FLAGS>): Pick<LoggerOptions, "level" | "encoder" | "time"> {
  const devel = values["zap-devel"] && !explicit.has("zap-encoder");
  return {
    level: levelOf(values["zap-log-level"]) ?? levelOfVerbosity(values.v),
    encoder: devel ? "console" : values["zap-encoder"],
    time: values["zap-time-encoding"] || "iso8601",
  };
}

function levelOf(text: string): LogLevel | undefined {
  if (text === "") return undefined;
  const level =
    LEVELS.get(text.toLowerCase()) ?? (/^[1-9]\d{0,2}$/.test(text) ? levelOfVerbosity(Number(text)) : undefined);
  if (level !== undefined) return level;
  throw new SluiceError(
    "FLAG_VALUE",
    `--zap-log-level=${JSON.stringify(text.slice(0, 100))} is not valid: the flag takes debug, info, error, panic or a number of 1 or more`,
  );
}
