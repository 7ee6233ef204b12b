import { describe, expect, it } from "vitest";
import { command } from "../common/command.ts";
import { type LogOptions, logSettingsFrom, withLogOptions } from "./log-options.ts";

function settingsOf(...args: string[]) {
  return logSettingsFrom(withLogOptions(command("gateway", "")).parse(args, { from: "user" }).opts<LogOptions>());
}

describe("the log flags of the gateway", () => {
  it("are, by default, info as JSON with ready lines as text, and errors of requests on stdout", () => {
    expect(settingsOf()).toEqual({
      logging: { level: "info", encoder: undefined },
      jsonReadyLines: false,
      requestLog: { every: 0, file: "-" },
    });
  });

  it("set level and format, of ready lines too", () => {
    expect(settingsOf("--log-level", "error", "--log-format", "json")).toMatchObject({
      logging: { level: "error", encoder: "json" },
      jsonReadyLines: true,
    });
    expect(settingsOf("--log-format", "console")).toMatchObject({
      logging: { encoder: "console" },
      jsonReadyLines: false,
    });
  });

  it.each([
    ["off", undefined],
    ["errors", { every: 0, file: "-" }],
    ["all", { every: 1, file: "-" }],
    ["1/1", { every: 1, file: "-" }],
    ["1/100", { every: 100, file: "-" }],
    ["1/1000000", { every: 1_000_000, file: "-" }],
  ])("--request-log %s", (which, expected) => {
    expect(settingsOf("--request-log", which).requestLog).toEqual(expected);
  });

  it("name the file", () => {
    expect(settingsOf("--request-log-file", "a.log").requestLog).toEqual({ every: 0, file: "a.log" });
  });

  it.each([
    [["--request-log", "1/0"], '--request-log is "1/0"; give off, errors, all, or 1/N with N from 1 to 1000000'],
    [["--request-log", "2/3"], "give off"],
    [["--request-log", "1/1000001"], "give off"],
    [["--request-log", "ALL"], "give off"],
    [["--log-level", "trace"], '--log-level is "trace"; give error, warn, info, debug'],
    [["--log-format", "text"], '--log-format is "text"; give json, console'],
    [["--request-log-file", ""], "give a file, or - for stdout"],
    [
      ["--request-log", "off", "--request-log-file", "a.log"],
      "--request-log-file has no effect with --request-log off",
    ],
  ])("refuse %j", (args, message) => {
    expect(() => settingsOf(...args)).toThrow(message);
  });
});
