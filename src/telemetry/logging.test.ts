import { describe, expect, it } from "vitest";
import { createLogger, type Logger, type LoggerOptions, levelOfVerbosity, silentLogger } from "./logging.ts";

function capture(options: LoggerOptions): { logger: Logger; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => lines.push(JSON.parse(line)) };
  return { logger: createLogger({ ...options, destination }), lines };
}

function writeAll(logger: Logger): void {
  logger.debug({}, "debug");
  logger.info({}, "info");
  logger.warn({}, "warn");
  logger.error({}, "error");
}

describe("createLogger", () => {
  it("writes JSON lines with level, ISO time, name and the fields given", () => {
    const { logger, lines } = capture({ name: "epp" });
    logger.child({ endpoint: "pod-0" }).warn({ attempts: 3 }, "scrape failed");
    expect(lines).toEqual([
      {
        level: "warn",
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        pid: process.pid,
        name: "epp",
        endpoint: "pod-0",
        attempts: 3,
        msg: "scrape failed",
      },
    ]);
  });

  it("writes the stack of an error under `err`", () => {
    const { logger, lines } = capture({});
    logger.error({ err: new Error("broken") }, "failed");
    expect(lines[0]?.err).toMatchObject({ message: "broken", stack: expect.stringContaining("logging.test.ts") });
  });

  it("maps the EPP's -v numbers to levels", () => {
    expect([-1, 0, 1, 2, 3, 4, 5, 9].map(levelOfVerbosity)).toEqual([
      "warn",
      "warn",
      "warn",
      "info",
      "info",
      "debug",
      "trace",
      "trace",
    ]);
    const levels = (options: LoggerOptions): unknown[] => {
      const { logger, lines } = capture(options);
      writeAll(logger);
      return lines.map((line) => line.level);
    };
    expect(levels({ verbosity: 1 })).toEqual(["warn", "error"]);
    expect(levels({})).toEqual(["info", "warn", "error"]);
    expect(levels({ verbosity: 4 })).toEqual(["debug", "info", "warn", "error"]);
    expect(levels({ verbosity: 4, level: "error" })).toEqual(["error"]);
    expect(levels({ level: "silent" })).toEqual([]);
  });
});

describe("silentLogger", () => {
  it("takes everything, children included", () => {
    expect(() => writeAll(silentLogger.child({ a: 1 }))).not.toThrow();
  });
});
