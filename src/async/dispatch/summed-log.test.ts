import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type LogFields, type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { SummedLog } from "./summed-log.ts";

function made() {
  const clock = new VirtualClock();
  const lines: { readonly message: string; readonly fields: LogFields }[] = [];
  const log: Logger = { ...silentLogger, warn: (fields, message) => void lines.push({ message, fields }) };
  return { clock, lines, summed: new SummedLog(log, clock) };
}

describe("SummedLog", () => {
  it("writes one line for what comes within a second, with the number by queue", () => {
    const { clock, lines, summed } = made();
    for (let i = 0; i < 64; i++) summed.add("warn", "dropped", i < 60 ? "q" : "r");
    summed.add("warn", "lost", "q", 7);
    expect(lines).toEqual([]);
    clock.advance(1000);
    expect(lines).toEqual([
      { message: "dropped", fields: { count: 64, queues: { q: 60, r: 4 } } },
      { message: "lost", fields: { count: 7, queues: { q: 7 } } },
    ]);
    clock.advance(60_000);
    expect(lines).toHaveLength(2);
  });

  it("writes at most one line in ten seconds, and leaves nothing out", () => {
    const { clock, lines, summed } = made();
    for (let i = 0; i < 100; i++) {
      summed.add("warn", "dropped", "q");
      clock.advance(500);
    }
    clock.advance(20_000);
    expect(lines.length).toBeLessThanOrEqual(7);
    expect(lines.reduce((sum, { fields }) => sum + (fields["count"] as number), 0)).toBe(100);
  });

  it("names twenty queues at most, and counts all", () => {
    const { clock, lines, summed } = made();
    for (let i = 0; i < 30; i++) summed.add("warn", "dropped", `q${i}`);
    clock.advance(1000);
    expect(lines[0]!.fields["count"]).toBe(30);
    expect(Object.keys(lines[0]!.fields["queues"] as object)).toHaveLength(20);
  });

  it("writes what is left when it is told to, once", () => {
    const { clock, lines, summed } = made();
    summed.add("warn", "dropped", "q");
    summed.flush();
    summed.flush();
    clock.advance(60_000);
    expect(lines).toHaveLength(1);
  });
});
