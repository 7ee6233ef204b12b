-- Takes a token of a rate limit; begins with quota-key.lua.
-- KEYS: the set. ARGV: member, limit, window in ms, life of the key in ms. Answer: 1, or 0 when there is none left.

if foreign() then return 0 end
local now = time[1] * 1e9 + time[2] * 1e3
redis.call('ZREMRANGEBYSCORE', key, 1e16, string.format('%.0f', now - ARGV[3] * 1e6))
if redis.call('ZCOUNT', key, 1e16, '+inf') >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', key, string.format('%.0f', now), ARGV[1])
live(tonumber(ARGV[4]))
return 1
