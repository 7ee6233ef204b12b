import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

/** The folder where parts land: `.cache/parts/`, or SLUICE_PARTS where that is set. */
export const PARTS = process.env["SLUICE_PARTS"] ?? join(import.meta.dirname, "..", ".cache", "parts");

/** A part that is not there and cannot be installed. */
export class PartMissing extends Error {}

/** The output of a program. @throws PartMissing with its errors when it fails */
export function run(command: string, args: readonly string[], cwd?: string): string {
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

/** A program on the PATH; undefined = it is not there. */
export function onPath(name: string): string | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const candidate = join(folder, name);
    if (folder !== "" && existsSync(candidate)) return candidate;
  }
  return undefined;
}

/**
 * Puts a file or a folder into the cache, unless it is there. It appears only when it is whole.
 * @param target its path in the cache
 * @param make gets it in a scratch folder and returns its path there
 * @returns `target`
 */
export function cached(target: string, make: (scratch: string) => string): string {
  if (existsSync(target)) return target;
  mkdirSync(dirname(target), { recursive: true });
  const scratch = mkdtempSync(join(PARTS, "scratch-"));
  try {
    const made = make(scratch);
    // Somebody else may have been faster.
    if (!existsSync(target)) renameSync(made, target);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return target;
}
