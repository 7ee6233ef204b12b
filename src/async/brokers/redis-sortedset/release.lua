-- Puts claims back into their queue as they were, byte for byte and at their old places (async-processor 5.2.8).
-- KEYS: the queue, its claims, its leases. ARGV: most claims; bytes after which it stops; `all` = also claims whose lease still
-- runs.
-- Answer: claims that went back; leases that are left to look at.
--
-- The entry is in the queue before its claim goes: a failure in between leaves an entry that is there twice in name only, since
-- a sorted set holds it once. The owners of the queue stay: a dispatcher that still has such a message in hand learns that the
-- message was taken over, and drops its result (store-state.lua).

local queue, claims, leases = KEYS[1], KEYS[2], KEYS[3]
local t = redis.call('TIME')
local until_ = ARGV[3] == 'all' and '+inf' or t[1] * 1000 + math.floor(t[2] / 1000)
-- A claim without a lease is a leftover of another program: nobody renews it.
if redis.call('HLEN', claims) > redis.call('ZCARD', leases) then
  for _, id in ipairs(redis.call('HKEYS', claims)) do redis.call('ZADD', leases, 'NX', 0, id) end
end
local back, bytes = 0, tonumber(ARGV[2])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', until_, 'LIMIT', 0, ARGV[1])) do
  if bytes <= 0 then break end
  local value = redis.call('HGET', claims, id)
  if value then
    local at = string.find(value, '\n', 1, true)
    redis.call('ZADD', queue, string.sub(value, 1, at - 1), string.sub(value, at + 1))
    redis.call('HDEL', claims, id)
    back, bytes = back + 1, bytes - #value
  end
  redis.call('ZREM', leases, id)
end
return { back, redis.call('ZCOUNT', leases, '-inf', until_) }
