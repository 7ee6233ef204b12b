import { redisScript } from "../redis/script.ts";
import { ANSWERED_PREFIX } from "./keys.ts";
import { MADE } from "./store-state.ts";

/** Owners remembered before those are forgotten that have done nothing for a day. */
const OWNERS = 1000;
const OWNER_KEPT = 24 * 3_600_000;

/**
 * Extends leases (async-processor 5.2.8).
 * KEYS: per queue its claims, its leases and its owners. ARGV: ms from now; then per claim: number of its queue's first key,
 * claim id.
 * Answer: how many claims were taken over, their positions (from 0 on), then the positions of those that the store has
 * lost (store-state.ts).
 */
export const RENEW = redisScript(`${MADE}
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local ends = ms + ARGV[1]
local taken, forgotten, touched = {}, {}, {}
-- An owner that renews is alive, and its number is kept.
local function touch(owners, owner)
  if not owner or touched[owners .. owner] then return end
  touched[owners .. owner] = true
  local mark = redis.call('HGET', owners, owner)
  if mark then redis.call('HSET', owners, owner, string.match(mark, '^%d+') .. ':' .. string.format('%.0f', ms)) end
end
for i = 2, #ARGV, 2 do
  local first, id = tonumber(ARGV[i]), ARGV[i + 1]
  if redis.call('HEXISTS', KEYS[first], id) == 1 then
    redis.call('ZADD', KEYS[first + 1], ends, id)
    touch(KEYS[first + 2], string.match(id, '^(.-):'))
  else
    local was, trouble = made(KEYS[first + 2], id)
    if trouble then return redis.error_reply(trouble) end
    local list = was and not redis.call('ZSCORE', KEYS[first + 1], id) and taken or forgotten
    list[#list + 1] = i / 2 - 1
  end
end
local answer = { #taken }
for _, at in ipairs(taken) do answer[#answer + 1] = at end
for _, at in ipairs(forgotten) do answer[#answer + 1] = at end
return answer
`);

/** Arguments per claim. */
export const REINSTATE_WIDTH = 6;

/** Answers of the script per claim; any text is the server's reason for a failure. */
export const TAKEN = 0;
export const REINSTATED = 1;
export const HAS_ANSWER = 2;

/**
 * Puts claims back that the store has lost (store-state.ts).
 * KEYS: the set of retries; then per queue: the queue, its claims, its leases, its owners.
 * ARGV: lease in ms; prefix of cancel marks; then per claim: number of its queue's first key, claim id, entry, score, request
 * id, token.
 *
 * The same entry leaves the queue and the retries: nobody shall take it a second time. Its score there counts.
 */
export const REINSTATE = redisScript(`${MADE}
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local function reinstate(at)
  local first, id, entry, score = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local request, token = ARGV[at + 4], ARGV[at + 5]
  local queue, claims, leases, owners = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  if redis.call('HEXISTS', claims, id) == 1 then return ${REINSTATED} end
  local was, trouble = made(owners, id)
  if trouble then return trouble end
  if was and not redis.call('ZSCORE', leases, id) then return ${TAKEN} end
  if token ~= '' and redis.pcall('GET', ARGV[2] .. request) == '${ANSWERED_PREFIX}' .. token then return ${HAS_ANSWER} end
  local waiting = redis.call('ZSCORE', queue, entry)
  redis.call('HSET', owners, id, string.format('1:%.0f', ms))
  redis.call('HSET', claims, id, (waiting or score) .. '\\n' .. entry)
  redis.call('ZADD', leases, ms + ARGV[1], id)
  redis.call('ZREM', queue, entry)
  redis.pcall('ZREM', KEYS[1], entry)
  return ${REINSTATED}
end
local answers = {}
for at = 3, #ARGV, ${REINSTATE_WIDTH} do
  local ok, answer = pcall(reinstate, at)
  answers[#answers + 1] = ok and answer or refusal(answer) or tostring(answer)
end
return answers
`);

/**
 * Claims of a queue whose lease has run out.
 * KEYS: its claims, its leases, its owners. ARGV: how many at most; lease in ms for claims that have none; the server times
 * in ms between which nobody has set its clock (store-clock.ts).
 * Answer: server time in ms, then per claim its id and what is kept of it: \`<score>\\n<entry>\`. After a jump of the clock
 * there are none: every lease begins anew.
 *
 * What other hands have left behind is mended on the way: a lease without a claim goes, a claim without a lease gets one,
 * and owners that have done nothing for a day are forgotten when there are many.
 */
export const RUN_OUT = redisScript(`
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('HLEN', KEYS[1]) > redis.call('ZCARD', KEYS[2]) then
  for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
    redis.call('ZADD', KEYS[2], 'NX', ms + ARGV[2], id)
  end
end
if redis.call('HLEN', KEYS[3]) > ${OWNERS} then
  local fields = redis.call('HGETALL', KEYS[3])
  for i = 1, #fields, 2 do
    if tonumber(string.match(fields[i + 1], ':(%d+)$') or 0) < ms - ${OWNER_KEPT} then redis.call('HDEL', KEYS[3], fields[i]) end
  end
end
if ms < tonumber(ARGV[3]) or ms > tonumber(ARGV[4]) then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do redis.call('ZADD', KEYS[2], ms + ARGV[2], id) end
  return { ms }
end
local answer = { ms }
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
