import { redisScript } from "../redis/script.ts";

/**
 * What is in a queue.
 * KEYS: the queue, its claims, the set of retries, its dead letters.
 * Answer: entries waiting, claimed, parked, dead; score and creation time of the first (what stands in front of the
 * payload, whose members mean nothing here). False for a key of another type, and for what is not there.
 */
export const BACKLOG = redisScript(`
local function count(command, key)
  local reply = redis.pcall(command, key)
  return type(reply) == 'number' and reply
end
local first = redis.pcall('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local head = first[1] and string.sub(first[1], 1, string.find(first[1], '"payload"', 1, true) or #first[1])
local created = head and string.match(head, '"created"%s*:%s*(%d+)')
return {
  count('ZCARD', KEYS[1]), count('HLEN', KEYS[2]), count('ZCARD', KEYS[3]), count('LLEN', KEYS[4]),
  first[2] or false, created or false
}
`);

/** First entries of a queue with their scores as texts. KEYS: the queue. ARGV: how many. */
export const PEEK = redisScript(`return redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')`);

/**
 * Moves the oldest dead letters back, each if it is still there.
 * KEYS: the dead letters, the queue. ARGV per letter: the letter, the entry it becomes, its score.
 * Answer: how many were moved.
 */
export const REVIVE = redisScript(`
local moved = 0
redis.call('ZCARD', KEYS[2])
for i = 1, #ARGV, 3 do
  if redis.call('LREM', KEYS[1], -1, ARGV[i]) == 1 then
    redis.call('ZADD', KEYS[2], ARGV[i + 2], ARGV[i + 1])
    moved = moved + 1
  end
end
return moved
`);
