import { describe, expect, it } from "vitest";
import { VirtualClock } from "../clock/virtual.ts";
import { createLogger } from "./logging.ts";
import { RateLimitedLog } from "./rate-limited-log.ts";

function setUp(limits: { intervalMs: number; maxKeys: number }) {
  const lines: { level: string; msg: string; key?: string; suppressed?: number }[] = [];
  const logger = createLogger({ level: "debug", destination: { write: (line) => lines.push(JSON.parse(line)) } });
  const clock = new VirtualClock();
  return { lines, clock, log: new RateLimitedLog(logger, clock, limits) };
}

describe("RateLimitedLog", () => {
  it("writes one line per key and interval, and says how many it left out", () => {
    const { lines, clock, log } = setUp({ intervalMs: 1000, maxKeys: 10 });
    expect(log.log("warn", "a", { key: "a" }, "scrape failed")).toBe(true);
    for (let i = 0; i < 5; i++) expect(log.log("warn", "a", { key: "a" }, "scrape failed")).toBe(false);
    expect(log.log("error", "b", { key: "b" }, "scrape failed")).toBe(true);
    clock.advance(999);
    expect(log.log("warn", "a", { key: "a" }, "scrape failed")).toBe(false);
    clock.advance(1);
    expect(log.log("warn", "a", { key: "a" }, "scrape failed")).toBe(true);
    clock.advance(1000);
    log.log("debug", "a", { key: "a" }, "scrape failed");
    expect(lines.map(({ level, key, suppressed }) => [level, key, suppressed])).toEqual([
      ["warn", "a", undefined],
      ["error", "b", undefined],
      ["warn", "a", 6],
      ["debug", "a", undefined],
    ]);
  });

  it("keeps at most maxKeys keys, and writes at most one line more than that per interval (bound)", () => {
    const { lines, clock, log } = setUp({ intervalMs: 1000, maxKeys: 3 });
    for (let i = 0; i < 1000; i++) log.log("warn", `key ${i}`, {}, "strange");
    expect(log.size).toBe(3);
    expect(lines.length).toBe(4);
    clock.advance(1000);
    for (let i = 0; i < 1000; i++) log.log("warn", `later key ${i}`, {}, "strange");
    expect(log.size).toBe(3);
    expect(lines.length).toBe(8);
    expect(lines.at(-1)?.suppressed).toBe(996);
  });
});
