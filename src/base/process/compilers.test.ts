import { describe, expect, it } from "vitest";
import { choosesCompilers, withoutLastCompiler } from "./compilers.ts";

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
