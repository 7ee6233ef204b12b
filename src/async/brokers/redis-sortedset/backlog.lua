-- The contents of a queue in numbers.
-- KEYS: the queue, its claims, the set of retries, its dead letters.
-- Answer: entries waiting, claimed, parked, dead; score and creation time of the first (read from the text before the payload,
-- whose members mean nothing here). False for a key of another type, and for a value that does not exist.

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
