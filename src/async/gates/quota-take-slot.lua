-- Takes a place under a lease; begins with quota-key.lua.
-- KEYS: the set. ARGV: member, limit, lease in ms. Answer: 1, or 0 when there is none left.

-- Milliseconds that a key outlives its entries.
local LINGER = 1000
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if foreign() then return 0 end
redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
if redis.call('ZCOUNT', key, '-inf', 1e16) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', key, now + ARGV[3], ARGV[1])
live(ARGV[3] + LINGER)
return 1
