-- Moves entries from the set of retries to their queues, each in one step: a second mover finds the entry gone
-- (async-processor 5.2.7, H-9).
-- KEYS: the set of retries, its dead letters, queues. ARGV per entry: the entry; number of its queue's key, or 0 for the dead
-- letters; score; reason of a dead letter.
-- Answer: entries that have left the set; how many of them became dead letters.

local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local moved, buried = 0, 0
for i = 1, #ARGV, 4 do
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
