import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..", "..", "test", "corpus");

/** The inputs kept for a target: what to begin with, and every one that was ever found to fail. */
export function readCorpus(target: string, root = ROOT): { readonly name: string; readonly bytes: Buffer }[] {
  const folder = join(root, target);
  return readdirSync(folder)
    .sort()
    .map((name) => ({ name, bytes: readFileSync(join(folder, name)) }));
}

/** Keeps an input that failed, for good. @returns the file */
export function keep(target: string, input: Uint8Array, root = ROOT): string {
  const folder = join(root, target);
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `found-${createHash("sha256").update(input).digest("hex").slice(0, 12)}.bin`);
  writeFileSync(file, input);
  return file;
}
