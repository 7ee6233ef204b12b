import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { choosesCompilers, whileWarming } from "./compilers.ts";
import { isMeasured } from "./v8-options.ts";

describe("the compilers of V8", () => {
  it.each([
    "--no-turbofan",
    "--max-opt=2",
    "--max_opt=2",
    "--jitless",
    "--lite-mode",
    "--no-warnings --maglev-as-top-tier",
    "--max-old-space-size=100 --no-maglev",
  ])("are those of an operator who starts Node.js with %s", (options) => {
    expect(choosesCompilers(["--enable-source-maps", options])).toBe(true);
  });

  it("are sluice's choice with other options", () => {
    expect(choosesCompilers([])).toBe(false);
    expect(choosesCompilers(["--max-old-space-size=100 --semi-space-growth-factor=3", "--cpu-prof"])).toBe(false);
  });

  it("work again after work that failed, whose error the caller gets", async () => {
    const fault = new Error("fault");
    await expect(whileWarming(() => Promise.reject(fault))).rejects.toBe(fault);
    let isDone = false;
    await whileWarming(async () => {
      isDone = true;
    });
    expect(isDone).toBe(true);
  });
});

/** Prints after how many calls Maglev and TurboFan compile a function: one that `whileWarming` runs, and one after it. */
const HOT = `
  const { whileWarming } = await import(${JSON.stringify(new URL("compilers.ts", import.meta.url).href)});
  const MAGLEV = 1 << 4, TURBOFAN = 1 << 5;
  const calls = (hot, until) => {
    for (let i = 1; i < 1e6; i++) {
      hot(i);
      if ((%GetOptimizationStatus(hot) & until) !== 0) return i;
    }
    return Infinity;
  };
  %NeverOptimizeFunction(calls);
  const warm = (a) => (a * 31 + 7) | 0;
  const other = (a) => (a * 37 + 7) | 0;
  let early;
  await whileWarming(async () => { early = calls(warm, MAGLEV); });
  const usual = calls(other, MAGLEV);
  const last = calls(other, TURBOFAN);
  const late = calls(warm, TURBOFAN);
  console.log(early < usual, 5 * last < late, late < Infinity);
`;

it.runIf(isMeasured())(
  "compile early while the process warms up, and TurboFan comes late for these functions alone",
  async () => {
    const flags = ["--allow-natives-syntax", "--no-concurrent-recompilation", "--input-type=module"];
    const { stdout } = await promisify(execFile)(process.execPath, [...flags, "--eval", HOT], { env: {} });
    expect(stdout).toBe("true true true\n");
  },
);
