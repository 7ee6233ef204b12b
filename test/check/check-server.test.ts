import { describe, expect, it } from "vitest";
import { deadPort } from "../support/loopback.ts";
import { sluice } from "../support/process.ts";

/** No answer is late, however slow the machine is. */
const PATIENTLY = ["--timeout", "10m"];

/** Runs `sluice check-server` to its end. */
async function check(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const process = sluice("check-server", ...args);
  try {
    const { code } = await process.ended(60_000);
    return { code, stdout: process.stdout, stderr: process.stderr };
  } finally {
    if (process.exit === undefined) await process.stop();
  }
}

describe("sluice check-server", () => {
  it("finds nothing wrong with sluice sim, on the terminal and as JSON", async () => {
    const simulator = sluice("sim", "--host", "127.0.0.1", "--port", "0", "--lora-modules", "sql=/x");
    try {
      const address = await simulator.listening("sim");
      const { code, stdout } = await check(address, ...PATIENTLY);
      expect(code).toBe(0);
      const lines = stdout.trimEnd().split("\n");
      expect(lines).toHaveLength(20);
      expect(lines.filter((line) => /^(warn|FAIL|skip) /.test(line))).toEqual([]);
      expect(lines.at(-1)).toBe(
        "19 ok, 0 warn, 0 FAIL, 0 skip: the server meets every MUST that was checked (metrics of vllm, model sim)",
      );
      const json = await check(`http://${address}/v1`, "--json", "--skip-generation", ...PATIENTLY);
      expect(json.code).toBe(0);
      expect(JSON.parse(json.stdout)).toMatchObject({ url: `http://${address}`, exitStatus: 0, counts: { FAIL: 0 } });
    } finally {
      await simulator.stop();
    }
  });

  it("ends with 1 when the server breaks a MUST", async () => {
    const simulator = sluice("sim", "--host", "127.0.0.1", "--port", "0");
    try {
      const address = await simulator.listening("sim");
      const names = ["--engine", "vllm", "--kv-cache-usage-percentage-metric", "vllm:generation_tokens_total"];
      const { code, stdout } = await check(address, ...names, ...PATIENTLY);
      expect(code).toBe(1);
      expect(stdout).toMatch(/^FAIL {2}KVCacheUtilization: vllm:generation_tokens_total is a counter/m);
      expect(stdout).toMatch(/1 FAIL, .*the server breaks a MUST/);
    } finally {
      await simulator.stop();
    }
  });

  it("ends with 2 when it cannot run", async () => {
    const address = `127.0.0.1:${await deadPort()}`;
    const { code, stderr, stdout } = await check(address);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^sluice: cannot connect to http:\/\/127\.0\.0\.1:\d+: .*ECONNREFUSED/);
    for (const args of [
      [],
      ["http://u:hunter2@h"],
      [address, "--timeout", "soon"],
      [address, "--engine", "vlm"],
      [address, "--header", "hunter2"],
      [address, "--metrics-path", "metrics"],
      [address, "--lora-info-metric", "a b"],
      [address, "--modle", "x"],
    ]) {
      const mistyped = await check(...args);
      expect({ args, code: mistyped.code, stdout: mistyped.stdout }).toEqual({ args, code: 2, stdout: "" });
      expect(mistyped.stderr).not.toBe("");
      expect(mistyped.stderr).not.toContain("hunter2");
    }
  });
});
