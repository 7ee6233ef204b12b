import { type RedisScript, redisScript } from "../queues/redis/script.ts";
import type { QuotaStore } from "./quota-store.ts";
import type { GateRedis } from "./redis-parameters.ts";

/** Names of places that one command carries at most. */
const MOST_AT_ONCE = 1_000;
/** Milliseconds that a reservation waits for a connection: enough for the first one and for a server that restarts. */
const CONNECT_LIMIT = 5_000;
/** Milliseconds that keys outlive what is in them. */
const LINGER = 1_000;

/*
 * Both modes keep a sorted set under `<prefix><attribute>:<value>`, by the server's clock: processes whose clocks differ
 * count alike. Rate limits score the instant of admission in nanoseconds, as the reference does, so that its processes and
 * ours share one window; a double holds them to 256 ns, and the server counts in microseconds. Concurrency scores the end
 * of the lease in milliseconds. Scores above and below 10^16 tell the two apart: mixed under one key, each would destroy
 * the other's count in silence.
 */
const CONFLICT = "the key is used by a quota in the other mode: give one of the two another prefix";

/** KEYS: the set. ARGV: member, limit, window in ms, life of the key in ms. */
const TAKE_TOKEN = redisScript(`
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
if first and tonumber(first) < 1e16 then return redis.error_reply('ERR ${CONFLICT}') end
local time = redis.call('TIME')
local now = time[1] * 1e9 + time[2] * 1e3
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[3] * 1e6))
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
`);

/** What concurrency scripts share: the time in ms, and keeping the key as long as the longest lease in it. */
const LEASES = `
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function outlive()
  local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', tonumber(last) + ${LINGER}))
end
`;

/**
 * KEYS: the set. ARGV: member, limit, lease in ms. A counter of the reference counts as a full quota: it goes away by itself
 * one window after the last process that used it, and without an expiry it is left over.
 */
const TAKE_SLOT = redisScript(`${LEASES}
if redis.call('TYPE', KEYS[1]).ok == 'string' then
  if redis.call('PTTL', KEYS[1]) ~= -1 then return 0 end
  redis.call('DEL', KEYS[1])
end
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
if last and tonumber(last) > 1e16 then return redis.error_reply('ERR ${CONFLICT}') end
local instant = now()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', instant)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], instant + ARGV[3], ARGV[1])
outlive()
return 1
`);

/** KEYS: the set. ARGV: lease in ms, members. A lease that ran out is taken again: its message is still in flight. */
const KEEP_SLOTS = redisScript(`${LEASES}
local ends = now() + ARGV[1]
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], ends, ARGV[i]) end
outlive()
return #ARGV - 1
`);

/** What a server that runs quotas has to know. */
export const QUOTA_SCRIPTS: readonly RedisScript[] = [TAKE_TOKEN, TAKE_SLOT, KEEP_SLOTS];

/** What both modes do alike. */
class RedisQuota {
  protected readonly redis: GateRedis;

  constructor(redis: GateRedis) {
    this.redis = redis;
  }

  protected async take(script: RedisScript, key: string, args: readonly string[]): Promise<boolean> {
    if (!this.redis.ready) await this.redis.whenReady(CONNECT_LIMIT);
    return (await this.redis.run(script, [key], args)) === 1;
  }

  async giveBack(key: string, members: readonly string[]): Promise<void> {
    await Promise.all(portions(members).map((portion) => this.redis.send(["ZREM", key, ...portion])));
  }

  close(): void {
    this.redis.close();
  }
}

/** At most `limit` tokens within any window; each leaves by itself when the window has passed over it. */
export class RedisRateLimit extends RedisQuota implements QuotaStore {
  readonly #args: readonly string[];

  /** @param window milliseconds, > 0 */
  constructor(redis: GateRedis, limit: number, window: number) {
    super(redis);
    const life = window < 1_000 ? 3_600_000 : 2 * window;
    this.#args = [String(limit), String(window), String(Math.ceil(life))];
  }

  reserve(key: string, member: string): Promise<boolean> {
    return this.take(TAKE_TOKEN, key, [member, ...this.#args]);
  }

  /** Tokens have no lease. */
  async renew(): Promise<void> {}
}

/** At most `limit` places with leases that have not run out. */
export class RedisConcurrency extends RedisQuota implements QuotaStore {
  readonly #limit: string;
  readonly #lease: string;

  /** @param lease milliseconds, > 0 */
  constructor(redis: GateRedis, limit: number, lease: number) {
    super(redis);
    this.#limit = String(limit);
    this.#lease = String(Math.ceil(lease));
  }

  reserve(key: string, member: string): Promise<boolean> {
    return this.take(TAKE_SLOT, key, [member, this.#limit, this.#lease]);
  }

  async renew(key: string, members: readonly string[]): Promise<void> {
    await Promise.all(portions(members).map((portion) => this.redis.run(KEEP_SLOTS, [key], [this.#lease, ...portion])));
  }
}

function portions(members: readonly string[]): readonly (readonly string[])[] {
  const found: (readonly string[])[] = [];
  for (let at = 0; at < members.length; at += MOST_AT_ONCE) found.push(members.slice(at, at + MOST_AT_ONCE));
  return found;
}
