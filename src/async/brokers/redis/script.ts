import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** A Lua script that the server runs as one step. */
export interface RedisScript {
  readonly source: string;
  /** What the server calls it. */
  readonly sha: string;
}

export function redisScript(source: string): RedisScript {
  return { source, sha: createHash("sha1").update(source).digest("hex") };
}

/**
 * Reads a script. Files are put together in their order: one with functions that several scripts use comes first.
 * @param folder of the module that runs it
 */
export function readScript(folder: string, ...files: readonly string[]): RedisScript {
  return redisScript(files.map((file) => readFileSync(join(folder, file), "utf8")).join("\n"));
}
