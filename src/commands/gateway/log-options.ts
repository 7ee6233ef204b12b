import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import { requestLogEvery, WHICH_REQUESTS } from "../../wires/gateway/request-log-which.ts";
import { LOG_LEVELS, oneOf } from "../common/command.ts";

const FORMATS = ["json", "console"] as const;

/** The options of `sluice gateway` for its lines. */
export interface LogOptions {
  readonly logLevel: string;
  readonly logFormat?: string;
  readonly requestLog: string;
  readonly requestLogFile: string;
}

/** Adds the options for log lines and the log of requests. */
export function withLogOptions(command: Command): Command {
  return command
    .option("--log-level <level>", "lowest level of the log lines on stderr: error, warn, info or debug", "info")
    .option(
      "--log-format <format>",
      "format of log lines and ready lines: json or console (text with tabs); default: JSON log lines, text ready lines",
    )
    .option(
      "--request-log <which>",
      "requests that get a log line: off, errors, all, or 1/N (all errors, and one in N of the other requests)",
      "errors",
    )
    .option(
      "--request-log-file <file>",
      "file for the request log, reopened after a rename or SIGHUP; - = stdout",
      "-",
    );
}

/** @throws SluiceError FLAG_VALUE, FLAG_CONFLICT */
export function logSettingsFrom({ logLevel, logFormat, requestLog, requestLogFile }: LogOptions) {
  const every = everyOf(requestLog);
  if (requestLogFile === "")
    throw new SluiceError("FLAG_VALUE", '--request-log-file is ""; give a file, or - for stdout');
  if (every === undefined && requestLogFile !== "-")
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--request-log-file has no effect with --request-log off; give --request-log errors, all or 1/N",
    );
  const encoder = logFormat === undefined ? undefined : oneOf(FORMATS, logFormat, "--log-format");
  return {
    logging: { level: oneOf(LOG_LEVELS, logLevel, "--log-level"), encoder },
    jsonReadyLines: encoder === "json",
    requestLog: every === undefined ? undefined : { every, file: requestLogFile },
  } as const;
}

function everyOf(text: string): number | undefined {
  const every = requestLogEvery(text);
  if (every !== "wrong") return every;
  throw new SluiceError("FLAG_VALUE", `--request-log is ${JSON.stringify(text.slice(0, 100))}; ${WHICH_REQUESTS}`);
}
