import { counted, grouped } from "../../base/document/words.ts";
import type { InstallationFacts, LimitsFacts, RedisFacts } from "./facts.ts";
import { few } from "./few.ts";
import { fail, ok, type Said, warn } from "./finding.ts";
import { FULL } from "./load-checks.ts";

/** Milliseconds for an answer of Redis above which its answers are older than the next round of shared limits. */
const SLOW = 100;
/** The only policy under which Redis keeps all counts. */
const KEEPS_ALL = "noeviction";
const MIB = 2 ** 20;

/** The rules of limits on disk: whether they can be used, and whether they can match. */
export function checkLimits({ file }: InstallationFacts): Said[] {
  const limits = file?.limits;
  if (limits === undefined) return [];
  if (limits.problem !== undefined)
    return [
      fail(
        `${limits.path} cannot be used: ${limits.problem}`,
        "correct the file: a running gateway keeps the old limits, and the next start fails",
      ),
    ];
  const said: Said[] = [];
  const strangers = strangersIn(limits, file?.keys);
  if (strangers.length > 0)
    said.push(
      warn(
        `rules of ${limits.path} have no effect: no key has the name ${few(strangers)}`,
        "correct the name in the rule, or add the key with sluice keys add",
      ),
    );
  if (limits.rules === 0)
    said.push(warn(`${limits.path} has no rule: nothing is limited`, "add rules: see docs/use/quotas.md"));
  if (limits.otherRedis)
    said.push(
      warn(
        `${limits.path} names a Redis, but the gateway uses another Redis: limits.redis of gateway.yaml`,
        "name Redis in only one of these places",
      ),
    );
  if (said.length > 0) return said;
  const where =
    file?.redis === undefined ? "this gateway shares no counts" : `shared through Redis ${file.redis.server}`;
  return [ok(`${counted(limits.rules, "rule")} in ${limits.path}, ${where}`)];
}

/** The names of keys in rules that no key has. Where tokens count, too, any name may come. */
function strangersIn({ keyNames }: LimitsFacts, keys: NonNullable<InstallationFacts["file"]>["keys"]): string[] {
  if (keys === undefined || keys.problem !== undefined || keys.tokens) return [];
  const known = new Set(keys.keys.map(({ name }) => name));
  return keyNames.filter((name) => !known.has(name));
}

/** The Redis of shared limits, as the gateway and as this machine see it. */
export function checkRedis({ running, file }: InstallationFacts): Said[] {
  const shared = typeof running === "string" ? undefined : running.gauges.limitsShared;
  const said: Said[] = [];
  if (shared === 0)
    said.push(
      fail(
        "the gateway does not reach Redis, and uses the last known counts of the other gateways",
        "start Redis, or check the network between the gateway and Redis",
      ),
    );
  const redis = file?.redis;
  if (redis !== undefined) {
    if (redis.problem !== undefined)
      said.push(
        warn(
          `Redis ${redis.server} cannot be used from this machine: ${redis.problem}`,
          "check that Redis runs, allows writes and scripts, and that the URL has the right user and password",
        ),
      );
    else said.push(...serverFaults(redis));
    if (redis.problem === undefined && shared === undefined && typeof running !== "string")
      said.push(
        warn(
          `the gateway shares no limits, but the file names Redis ${redis.server}`,
          "restart the gateway: a change of the Redis takes effect only at a start",
        ),
      );
  }
  if (said.length > 0) return said;
  if (redis !== undefined) return [ok(redisText(redis))];
  return shared === 1 ? [ok("the gateway shares its limits through Redis")] : [];
}

/** The faults of a server that answers. */
function serverFaults({ server, latency = 0, memory }: RedisFacts): Said[] {
  const said: Said[] = [];
  if (latency > SLOW)
    said.push(
      warn(
        `Redis ${server} answers in ${Math.round(latency)} ms: during this time, several gateways together may exceed a limit`,
        "run Redis nearer to the gateways, or on a machine with less load",
      ),
    );
  if (memory === undefined) return said;
  const { policy, limit, used } = memory;
  if (policy !== KEEPS_ALL)
    said.push(
      warn(
        `Redis ${server} has the eviction policy ${policy}: ${limit > 0 ? `above ${grouped(limit / MIB)} MiB, Redis` : "once maxmemory is set, Redis"} drops counts, and the limits start again from 0`,
        "set `maxmemory-policy noeviction` in the configuration of Redis, or run a separate Redis for limits",
      ),
    );
  else if (limit > 0 && used > limit * FULL)
    said.push(
      warn(
        `Redis ${server} uses ${grouped(used / MIB)} of ${grouped(limit / MIB)} MiB: a full Redis stores no counts`,
        "raise maxmemory, or run a separate Redis for limits",
      ),
    );
  return said;
}

function redisText({ server, version, latency = 0, memory }: RedisFacts): string {
  const name = version ?? "Redis (unknown version)";
  const keeps = memory === undefined ? "its eviction policy is unknown" : "it evicts nothing";
  return `${name} at ${server} answers in ${latency < 1 ? "less than 1" : Math.round(latency)} ms and runs the script of shared limits; ${keeps}`;
}
