import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { choosesCompilers, withoutLastCompiler } from "./compilers.ts";
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
    await expect(withoutLastCompiler(() => Promise.reject(fault))).rejects.toBe(fault);
    let isDone = false;
    await withoutLastCompiler(async () => {
      isDone = true;
    });
    expect(isDone).toBe(true);
  });
});

/** A function that is hot with Maglev as its last compiler, and then with TurboFan. Prints which of them compiled it each time. */
const HOT = `
  const { withoutLastCompiler } = await import(${JSON.stringify(new URL("compilers.ts", import.meta.url).href)});
  const MAGLEV = 1 << 4, TURBOFAN = 1 << 5;
  const hot = (a) => (a * 31 + 7) | 0;
  const call = (until) => {
    for (let i = 0; i < 3e6; i++) {
      hot(i);
      if (i % 1000 === 0 && (%GetOptimizationStatus(hot) & until) !== 0) return true;
    }
    return false;
  };
  %NeverOptimizeFunction(call);
  let first;
  await withoutLastCompiler(async () => { first = call(MAGLEV); });
  console.log(first, call(TURBOFAN));
`;

it.runIf(isMeasured())("lets TurboFan compile later what Maglev compiled meanwhile", async () => {
  const flags = ["--allow-natives-syntax", "--no-concurrent-recompilation", "--input-type=module"];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, "--eval", HOT], { env: {} });
  expect(stdout).toBe("true true\n");
});
