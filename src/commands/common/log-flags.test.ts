import { describe, expect, it } from "vitest";
import { parseGoFlags } from "./go-flags.ts";
import { LOG_FLAGS, loggingOf } from "./log-flags.ts";

const logging = (...args: string[]) => loggingOf(parseGoFlags(args, LOG_FLAGS, {}));
const DEFAULT = { level: "info", encoder: "json", time: "iso8601" };

describe("the flags of logging (E-120, E-121)", () => {
  it.each([
    [[], {}],
    [["-v", "4"], { level: "debug" }],
    [["-v=4"], { level: "debug" }],
    [["--v=4"], { level: "debug" }],
    [["-v4"], { level: "debug" }],
    [["-v", "1"], { level: "warn" }],
    [["--zap-encoder", "json"], {}],
    [["--zap-encoder=Console"], { encoder: "console" }],
    [["--zap-log-level=debug", "-v", "1"], { level: "debug" }],
    [["--zap-log-level", "INFO", "-v=5"], { level: "info" }],
    [["--zap-log-level=error"], { level: "error" }],
    [["--zap-log-level=panic"], { level: "silent" }],
    [["--zap-log-level=5"], { level: "trace" }],
    [["--zap-devel"], { encoder: "console" }],
    [["--zap-devel=true", "--zap-encoder=json"], {}],
    [["--zap-devel=false"], {}],
    [["--zap-time-encoding=epoch"], { time: "epoch" }],
    [["--zap-time-encoding", "RFC3339Nano"], { time: "rfc3339nano" }],
  ])("%j", (args, changed) => {
    expect(logging(...args)).toEqual({ ...DEFAULT, ...changed });
  });

  it.each(["0", "-1", "loud", "1.5", "1000", "constructor"])("refuse the level %s", (level) => {
    expect(() => logging(`--zap-log-level=${level}`)).toThrow(
      `--zap-log-level="${level}" is not valid: the flag takes debug, info, error, panic or a number of 1 or more`,
    );
  });

  it("say that stack traces cannot be chosen", () => {
    const { warnings } = parseGoFlags(["--zap-stacktrace-level=error"], LOG_FLAGS, {});
    expect(warnings).toEqual(["--zap-stacktrace-level has no effect: a logged error has its own stack trace"]);
  });
});
