import { redisScript } from "../redis/script.ts";

/**
 * Extends leases (async-processor 5.2.8).
 * KEYS: per queue its claims and its leases. ARGV: ms from now; then per claim: number of its queue's first key, claim id.
 * Answer: positions, from 0 on, of claims that are gone.
 */
export const RENEW = redisScript(`
local t = redis.call('TIME')
local ends = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1]
local lost = {}
for i = 2, #ARGV, 2 do
  local first, id = tonumber(ARGV[i]), ARGV[i + 1]
  if redis.call('HEXISTS', KEYS[first], id) == 1 then
    redis.call('ZADD', KEYS[first + 1], ends, id)
  else
    lost[#lost + 1] = i / 2 - 1
  end
end
return lost
`);

/**
 * Claims of a queue whose lease has run out.
 * KEYS: its claims, its leases. ARGV: how many at most; lease in ms for claims that have none.
 * Answer: per claim its id and what is kept of it: \`<score>\\n<entry>\`.
 *
 * What other hands have left behind is mended on the way: a lease without a claim goes, a claim without a lease gets one.
 */
export const RUN_OUT = redisScript(`
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('HLEN', KEYS[1]) > redis.call('ZCARD', KEYS[2]) then
  for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
    redis.call('ZADD', KEYS[2], 'NX', ms + ARGV[2], id)
  end
end
local answer = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ms, 'LIMIT', 0, ARGV[1])) do
  local value = redis.call('HGET', KEYS[1], id)
  if value then
    answer[#answer + 1] = id
    answer[#answer + 1] = value
  else
    redis.call('ZREM', KEYS[2], id)
  end
end
return answer
`);
