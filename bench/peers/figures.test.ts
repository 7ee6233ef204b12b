import { describe, expect, it } from "vitest";
import { type Cell, cellOf, cpuRatio, type Load, line, type Measured, median } from "./figures.ts";

const NO_LOAD: Load = {
  seconds: 2,
  done: 1000,
  directDone: 100,
  errors: 0,
  error: "",
  waiting: 0,
  p50: 300,
  p99: 900,
  p999: 2000,
  directP50: 100,
  directP99: 400,
};

/** The cell of two loops in which requests ended. */
const cell = (closed: Measured, open: Measured): Cell => cellOf(closed, open)!;

const measured = (cpuMs: number, load: Partial<Load> = {}, others = 0.1): Measured => ({
  cpuMs,
  load: { ...NO_LOAD, ...load },
  mib: 90,
  others,
});

describe("figures of bench/peers.ts", () => {
  it("takes the middle value, or the mean of the two in the middle", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([7])).toBe(7);
  });

  it("counts requests per second of CPU time, and takes the direct way from the latencies", () => {
    expect(cellOf(measured(500), measured(250, { done: 500 }))).toEqual({
      perCore: 2000,
      busy: 0.25,
      cpu: 500,
      p50: 200,
      p99: 500,
      errors: 0,
      error: "",
      overrun: false,
      fullP99: 900,
      fullP999: 2000,
      mib: 90,
      others: 0.1,
    });
  });

  it("adds the errors of both loops and keeps the first", () => {
    const both = cell(measured(500, { errors: 2, error: "first" }), measured(1, { errors: 3, error: "second" }));
    expect([both.errors, both.error]).toEqual([5, "first"]);
  });

  it("calls an open loop overrun when more than 50 ms of arrivals wait at its end", () => {
    const overrun = (waiting: number): boolean =>
      cell(measured(500), measured(500, { done: 1900, directDone: 100, waiting })).overrun;
    expect([overrun(50), overrun(51)]).toEqual([false, true]);
  });

  it("has no figures of a loop in which no request ended", () => {
    expect(cellOf(measured(5, { done: 0 }), measured(5))).toBeUndefined();
    expect(cellOf(measured(5), measured(5, { done: 0 }))).toBeUndefined();
  });

  it("compares CPU per request", () => {
    expect(cpuRatio(measured(300, { done: 100 }), measured(100, { done: 50 }))).toBe(1.5);
  });

  it("says of a line when the core was not full, when the open loop overran, and which error came first", () => {
    const good = cell(measured(2000), measured(500));
    expect(line("1 KB", "nginx", [good], [good])).toMatch(
      /^1 KB +nginx +500 +1\.00 +500 \(500 to 500\) +200 +500 +900 +90 +0\.10$/,
    );
    const bad = cell(measured(200, { errors: 1, error: "answer HTTP/1.1 503" }), measured(1, { waiting: 900 }));
    expect(line("1 KB", "nginx", [bad], undefined)).toMatch(
      /core 10 % busy; the open loop overran; 1 errors: answer HTTP\/1\.1 503$/,
    );
    const disturbed = cell(measured(2000, {}, 0.3), measured(500));
    expect(line("1 KB", "nginx", [disturbed], undefined)).toMatch(/invalid: others used more than 0\.2 cores/);
    expect(line("1 KB", "nginx", [disturbed, good], undefined)).toMatch(/1 of 2 rounds invalid$/);
  });
});
