import { redisScript } from "../redis/script.ts";

/**
 * Retries that are due, nothing is moved.
 * KEYS: the set of retries. ARGV: how many at most.
 * Answer: ms until the next one that is not due yet, -1 when there is none; then the entries.
 */
export const DUE = redisScript(`
local t = redis.call('TIME')
local now = t[1] .. '.' .. string.format('%06d', t[2])
local answer = { -1 }
local later = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if later[2] then answer[1] = math.min(1e9, math.ceil((tonumber(later[2]) - tonumber(now)) * 1000)) end
for i, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])) do answer[i + 1] = entry end
return answer
`);

/** Arguments per entry. */
export const MOVE_WIDTH = 4;

/**
 * Moves entries from the set of retries to their queues, each as one step: whoever comes second finds it gone
 * (async-processor 5.2.7, H-9).
 * KEYS: the set of retries, its dead letters, queues. ARGV per entry: the entry; number of its queue's key, or 0 for the
 * dead letters; score; reason of a dead letter.
 * Answer: how many have left the set; how many of them to the dead letters.
 */
export const MOVE = redisScript(`
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local moved, buried = 0, 0
for i = 1, #ARGV, ${MOVE_WIDTH} do
  local entry, queue, reason = ARGV[i], KEYS[tonumber(ARGV[i + 1])], ARGV[i + 3]
  if redis.call('ZSCORE', KEYS[1], entry) then
    local reply = queue and redis.pcall('ZADD', queue, ARGV[i + 2], entry)
    if type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true) then
      reason, reply = 'the key ' .. queue .. ' of its queue holds another type', nil
    end
    if not reply then
      local letter = '{"entry":' .. cjson.encode(entry) .. ',"reason":' .. cjson.encode(reason)
      reply = redis.pcall('LPUSH', KEYS[2], letter .. ',"at":' .. string.format('%.0f', ms) .. '}')
      if type(reply) ~= 'table' then buried = buried + 1 end
    end
    if type(reply) ~= 'table' then
      redis.call('ZREM', KEYS[1], entry)
      moved = moved + 1
    end
  end
end
return { moved, buried }
`);
