import type { RedisStore } from "../../test/support/dispatch-store.ts";

/** What a Redis server has done. */
export interface RedisWork {
  /** Reads from its clients' sockets. */
  readonly reads: number;
  /** Calls of scripts. */
  readonly scripts: number;
}

const SCRIPTS = /^cmdstat_(?:evalsha|eval):calls=(\d+)/gm;

/**
 * Asks a server what it has done. Reads are the upper end of round trips: what a client writes at once is one read, or
 * several when it is longer than the server's buffer of 16 KiB.
 */
export async function redisWork({ redis }: RedisStore): Promise<RedisWork> {
  const [stats, commands] = (await Promise.all([
    redis.send(["INFO", "stats"]),
    redis.send(["INFO", "commandstats"]),
  ])) as [string, string];
  const reads = Number(/total_reads_processed:(\d+)/.exec(stats)?.[1]);
  let scripts = 0;
  for (const [, calls] of commands.matchAll(SCRIPTS)) scripts += Number(calls);
  return { reads, scripts };
}
