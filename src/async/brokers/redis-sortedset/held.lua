-- What dispatchers have of a queue.
-- KEYS: its claims, its leases.
-- Answer: server time in ms; claims; when the last lease ends, in ms, as a text ("" = there is no lease).

local t = redis.call('TIME')
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return { t[1] * 1000 + math.floor(t[2] / 1000), redis.call('HLEN', KEYS[1]), last[2] or '' }
