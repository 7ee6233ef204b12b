import { createHash } from "node:crypto";

/** A Lua script that the server runs as one step. */
export interface RedisScript {
  readonly source: string;
  /** What the server calls it. */
  readonly sha: string;
}

export function redisScript(source: string): RedisScript {
  return { source, sha: createHash("sha1").update(source).digest("hex") };
}
