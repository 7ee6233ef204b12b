import { mkdtempSync, readFileSync, renameSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type LogFields, type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { openRequestLog } from "./request-log-output.ts";

function setUp(file: string) {
  const clock = new VirtualClock();
  const warnings: LogFields[] = [];
  const log: Logger = { ...silentLogger, warn: (fields, message) => void warnings.push({ ...fields, message }) };
  const output = openRequestLog({ every: 1, file }, clock, log);
  const counter = { dropped: 0 };
  output.countIn({
    inc(lines) {
      counter.dropped += lines;
    },
  });
  return { clock, warnings, output, counter };
}

const refused = { reason: "connection_refused" };

describe("the output of the log of requests", () => {
  it("writes to its file, and opens it again after SIGHUP", async () => {
    const file = join(mkdtempSync(join(tmpdir(), "sluice-requests-")), "requests.log");
    const { output, warnings } = setUp(file);
    const listeners = process.listenerCount("SIGHUP");
    output.log.unopened(refused);
    await poll("the line", () => readFileSync(file, "utf8").endsWith("\n"));
    renameSync(file, `${file}.1`);
    process.emit("SIGHUP", "SIGHUP");
    output.log.unopened(refused);
    await output.close();
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject(refused);
    expect([warnings, process.listenerCount("SIGHUP")]).toEqual([[], listeners - 1]);
  });

  it("counts what a full disk drops, and warns at most once in 10 s", async () => {
    const { clock, output, warnings, counter } = setUp("/dev/full");
    output.log.unopened(refused);
    await poll("the warning", () => warnings.length > 0);
    expect(warnings).toEqual([
      {
        ...{ file: "/dev/full", dropped: 0, problem: expect.stringContaining("ENOSPC") },
        message: "the gateway cannot write the log of requests",
      },
    ]);
    for (let i = 0; i < 60_000; i++) output.log.unopened(refused);
    const { dropped } = counter;
    expect(dropped).toBeGreaterThan(1000);
    expect(warnings).toHaveLength(1);
    clock.advance(10_000);
    output.log.unopened(refused);
    expect(warnings.slice(1)).toMatchObject([
      { dropped: dropped + 1, message: "the gateway dropped lines of the log of requests" },
    ]);
    const closed = output.close();
    clock.advance(1000);
    await closed;
    expect(counter.dropped).toBe(60_002);
  });

  it("says at the start that its file cannot be opened", () => {
    const file = join(import.meta.dirname, "nowhere", "x");
    expect(() => setUp(file)).toThrow(`--request-log-file ${file} cannot be opened: ENOENT`);
  });
});
