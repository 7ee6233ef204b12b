import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** A Lua script that the server runs as one step. */
export interface RedisScript {
  readonly source: string;
  /** The server's name of the script. */
  readonly sha: string;
}

/** A script from its text. @param source Lua */
export function redisScript(source: string): RedisScript {
  return { source, sha: createHash("sha1").update(source).digest("hex") };
}

/**
 * Reads a script. Several files are joined in their order: a file with shared functions comes first.
 * @param folder of the module that runs it
 */
export function readScript(folder: string, ...files: readonly string[]): RedisScript {
  return redisScript(files.map((file) => readFileSync(join(folder, file), "utf8")).join("\n"));
}
