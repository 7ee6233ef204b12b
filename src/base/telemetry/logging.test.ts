import { describe, expect, it } from "vitest";
import {
  consoleLine,
  createLogger,
  type Logger,
  type LoggerOptions,
  type LogTime,
  levelOfVerbosity,
  silentLogger,
} from "./logging.ts";

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

  it("maps the EPP's -v numbers to levels (scheduling appendix A)", () => {
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

describe("lines for people", () => {
  function lines(write: (logger: Logger) => void): string {
    let text = "";
    const destination = {
      write: (line: string): void => {
        text += line;
      },
    };
    write(createLogger({ name: "epp", encoder: "console", destination }));
    return text;
  }

  it("hold time, level, name, message and the other fields, with tabs between them", () => {
    const text = lines((logger) => logger.child({ endpoint: "pod-0" }).warn({ attempts: 3 }, "scrape failed"));
    expect(text).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z\tWARN\tepp\tscrape failed\t{"endpoint":"pod-0","attempts":3}\n$/);
  });

  it("show the stack of an error below", () => {
    const text = lines((logger) => logger.error({ err: new Error("broken") }, "failed"));
    expect(text).toMatch(/\tERROR\tepp\tfailed\nError: broken\n\s+at .*logging\.test\.ts/);
  });

  it("leave alone what is not a JSON object", () => {
    expect(consoleLine("plain\n")).toBe("plain\n");
  });
});

describe("time encodings", () => {
  it.each<[LogTime, RegExp]>([
    ["epoch", /"time":\d{10},/],
    ["millis", /"time":\d{13},/],
    ["nano", /"time":\d{19},/],
    ["iso8601", /"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",/],
    ["rfc3339", /"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",/],
    ["rfc3339nano", /"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z",/],
  ])("%s", (time, pattern) => {
    let text = "";
    const destination = {
      write: (line: string): void => {
        text += line;
      },
    };
    createLogger({ time, destination }).info({}, "x");
    expect(text).toMatch(pattern);
  });
});

describe("silentLogger", () => {
  it("takes everything, children included", () => {
    expect(() => writeAll(silentLogger.child({ a: 1 }))).not.toThrow();
  });
});
