-- Removes files and batches whose time is over, at most 100 of each, and gives up objects that nobody completed.
-- ARGV: now in seconds; the time of the end of batches that are to be forgotten. Answer: how many; then the objects to remove.

local AGAIN = 60000
local MOST = 100
local now = time()
local count = 0
for _, id in ipairs(redis.call('ZRANGE', key('expiring'), '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, MOST)) do
  count = count + 1
  if redis.call('HEXISTS', key('inputs'), id) == 1 then
    -- An open batch reads it: looked at later, so that it holds up no other one.
    redis.call('ZADD', key('expiring'), ARGV[1] + 600, id)
  else
    local file = redis.call('HMGET', key('file', id), 'owner', 'bytes')
    remove_file(id, file[1], file[2])
  end
end
for _, id in ipairs(redis.call('ZRANGE', key('ended'), '-inf', '(' .. ARGV[2], 'BYSCORE', 'LIMIT', 0, MOST)) do
  count = count + 1
  forget_batch(id, redis.call('HGET', key('batch', id), 'owner'))
end
for _, object in ipairs(redis.call('ZRANGE', key('intents'), '-inf', now, 'BYSCORE', 'LIMIT', 0, MOST)) do
  count = count + 1
  redis.call('ZREM', key('intents'), object)
  waste(object, now)
end
local objects = redis.call('ZRANGE', key('waste'), '-inf', now, 'BYSCORE', 'LIMIT', 0, MOST)
for _, object in ipairs(objects) do
  -- Another process looks at it only if this one fails.
  waste(object, now + AGAIN)
end
return { count, unpack(objects) }
