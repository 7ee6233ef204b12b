import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "../support/process.ts";

/** What `scripts/bootstrap node --version` prints where the installed Node claims to be `version`. */
function nodeUsedBeside(version: string): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-node-"));
  const stub = join(folder, "node");
  // npm itself runs on the node of the path.
  writeFileSync(stub, `#!/bin/sh\n[ "$*" = --version ] || exec "${process.execPath}" "$@"\necho ${version}\n`);
  chmodSync(stub, 0o755);
  // npm's own folders stay on the path: an old machine has npm.
  const path = [folder, ...(process.env["PATH"] ?? "").split(delimiter)].join(delimiter);
  return execFileSync(join(ROOT, "scripts", "bootstrap"), ["node", "--version"], {
    encoding: "utf8",
    env: { ...process.env, PATH: path },
    stdio: ["ignore", "pipe", "pipe"],
  }).trim();
}

describe("scripts/bootstrap", () => {
  it.each(["v24.15.0", "v25.0.0", "v26.10.0"])("uses an installed Node %s", (version) => {
    expect(nodeUsedBeside(version)).toBe(version);
  });

  it.each(["v24.14.9", "v20.20.2", "v6.0.0", ""])("brings its own where the installed one says %j", (version) => {
    expect(nodeUsedBeside(version)).toBe("v26.10.0");
  });

  it("says that the download failed: npm passes over an optional package and ends well", () => {
    const root = mkdtempSync(join(tmpdir(), "sluice-node-"));
    mkdirSync(join(root, "scripts", "node"), { recursive: true });
    cpSync(join(ROOT, "scripts", "bootstrap"), join(root, "scripts", "bootstrap"));
    for (const [name, text] of [
      ["node", "echo v20.20.2"],
      ["npm", "exit 0"],
    ] as const) {
      writeFileSync(join(root, name), `#!/bin/sh\n${text}\n`);
      chmodSync(join(root, name), 0o755);
    }
    const env = { PATH: [root, "/usr/bin", "/bin"].join(delimiter) };
    const run = spawnSync(join(root, "scripts", "bootstrap"), ["true"], { encoding: "utf8", env });
    expect(run.status, run.stderr).toBe(1);
    expect(run.stderr).toContain("npm could not download Node.js 26.10.0: check its registry, proxy and certificates");
  });
});
