import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sluice } from "./process.ts";

/** A keys file with one key, made by `sluice keys add`. */
export async function newKeys(
  name: string,
): Promise<{ readonly file: string; readonly text: string; readonly key: string }> {
  const file = join(mkdtempSync(join(tmpdir(), "sluice-keys-")), "keys.yaml");
  const made = sluice("keys", "add", "--file", file, "--name", name);
  const { code } = await made.ended(60_000);
  if (code !== 0) throw new Error(`sluice keys add ended with ${code}: ${made.stderr}`);
  return { file, text: readFileSync(file, "utf8"), key: made.stdout.trim() };
}
