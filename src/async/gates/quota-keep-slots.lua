-- Renews the leases of places; begins with quota-key.lua.
-- KEYS: the set. ARGV: lease in ms, members. A lease that ran out is taken again: its message is still in flight.

-- Milliseconds that a key outlives its entries.
local LINGER = 1000
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #ARGV do redis.call('ZADD', key, now + ARGV[1], ARGV[i]) end
live(ARGV[1] + LINGER)
return #ARGV - 1
