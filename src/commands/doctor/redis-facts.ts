import type { Clock } from "../../base/clock/clock.ts";
import { freshRandom } from "../../base/clock/random.ts";
import { messageOf, oneLine } from "../../base/inference/errors.ts";
import { connectRedis, type Redis } from "../../base/redis/connection.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import type { LimitsStore } from "../../picker/limits/limits-store.ts";
import { SHARE } from "../../picker/limits/shared-limits.ts";
import type { RedisFacts } from "./facts.ts";

/** Questions by which the time of an answer is measured: the first one may find cold caches. */
const QUESTIONS = 5;
/** The gateway, its silence and the life of a counter, in the arguments of the script; without keys it counts nothing. */
const NOTHING_TO_COUNT = ["sluice-doctor", "10000", "660000"];

/**
 * Asks the Redis of shared limits: time, version, memory, and whether the script runs. It changes no key.
 * @param timeout milliseconds, for the connection and for each answer
 */
export async function redisFacts({ connection }: LimitsStore, timeout: number, clock: Clock): Promise<RedisFacts> {
  const redis = connectRedis(
    connection,
    { clock, random: freshRandom(), log: silentLogger },
    { commandTimeout: timeout, scripts: [SHARE], writes: true },
  );
  const { server } = redis;
  try {
    await redis.whenReady(timeout);
    await redis.run(SHARE, [], NOTHING_TO_COUNT);
    return { server, problem: undefined, ...(await timesOf(redis, clock)), ...(await aboutOf(redis)) };
  } catch (error) {
    return { server, problem: oneLine(messageOf(error)), skew: undefined };
  } finally {
    redis.close();
  }
}

/** Microseconds and seconds of Redis's `TIME` have a resolution that the way there hides. */
async function timesOf(redis: Redis, clock: Clock): Promise<Pick<RedisFacts, "skew" | "latency">> {
  let latency = Number.POSITIVE_INFINITY;
  let skew: RedisFacts["skew"];
  for (let i = 0; i < QUESTIONS; i++) {
    const [sentAt, started] = [clock.wall(), clock.now()];
    const reply = await redis.send(["TIME"]);
    const took = clock.now() - started;
    const seconds = Array.isArray(reply) ? Number(reply[0]) : Number.NaN;
    if (took >= latency) continue;
    latency = took;
    if (!Number.isNaN(seconds)) skew = { ms: seconds * 1000 + 500 - sentAt - took / 2, error: 500 + took / 2 };
  }
  return { latency, skew };
}

/** Version and memory. An access list may forbid the question. */
async function aboutOf(redis: Redis): Promise<Pick<RedisFacts, "version" | "memory">> {
  let text: string;
  try {
    text = `${String(await redis.send(["INFO", "server"]))}\n${String(await redis.send(["INFO", "memory"]))}`;
  } catch {
    return {};
  }
  const value = (name: string): string | undefined => new RegExp(`^${name}:(.{1,64}?)\\s*$`, "m").exec(text)?.[1];
  const [valkey, plain, policy] = [value("valkey_version"), value("redis_version"), value("maxmemory_policy")];
  const version = valkey === undefined ? plain && `Redis ${plain}` : `Valkey ${valkey}`;
  const memory = { policy: policy ?? "", limit: Number(value("maxmemory")), used: Number(value("used_memory")) };
  return {
    ...(version === undefined ? {} : { version: oneLine(version) }),
    ...(policy === undefined || Number.isNaN(memory.limit) || Number.isNaN(memory.used) ? {} : { memory }),
  };
}
