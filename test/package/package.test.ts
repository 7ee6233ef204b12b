import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../support/process.ts";

/** Runs npm, quietly, with the registry of the machine. */
function npm(args: readonly string[], cwd: string): string {
  return execFileSync("npm", [...args, "--loglevel=error", "--no-audit", "--no-fund"], {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

describe("the packed package, installed elsewhere", () => {
  const home = mkdtempSync(join(tmpdir(), "sluice-package-"));

  beforeAll(() => {
    npm(["pack", "--pack-destination", home], ROOT);
    const tarball = readdirSync(home).find((name) => name.endsWith(".tgz"));
    writeFileSync(join(home, "package.json"), '{ "name": "elsewhere", "private": true, "type": "module" }');
    npm(["install", `./${tarball}`, "--prefer-offline", "--ignore-scripts"], home);
  });

  it("runs the demo from its own files", () => {
    const out = execFileSync(join(home, "node_modules", ".bin", "sluice"), ["demo", "--duration", "8s", "--json"], {
      cwd: home,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 60_000,
    });
    const { policies } = JSON.parse(out) as { policies: { name: string; requests: number; failed: number }[] };
    expect(policies.map((policy) => policy.name)).toEqual(["round-robin", "sluice"]);
    for (const policy of policies) {
      expect(policy.requests).toBeGreaterThan(20);
      expect(policy.failed).toBe(0);
    }
  });

  it("lets a plugin author import what plugins are made with", () => {
    writeFileSync(
      join(home, "mine.js"),
      `import { defineScorer, z } from "sluice/plugin";
       const mine = defineScorer({ type: "mine", describe: "d", parameters: z.strictObject({}), create: () => ({ score() {} }) });
       process.stdout.write(mine.kind + " " + mine.type);`,
    );
    expect(execFileSync(process.execPath, ["mine.js"], { cwd: home, encoding: "utf8" })).toBe("scorer mine");
  });

  it("explains a mistyped command", () => {
    const run = (): string =>
      execFileSync(join(home, "node_modules", ".bin", "sluice"), ["gatewy"], {
        cwd: home,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      });
    expect(run).toThrow(/Did you mean gateway\?/);
  });
});
