-- Every script of quotas begins with this file. KEYS: the set.
--
-- Both modes keep a sorted set under `<prefix><attribute>:<value>`, by the server's clock, so processes with different clocks
-- count alike. A rate limit scores the instant of admission in nanoseconds, as the reference does, so that processes of both
-- share one window. A double holds nanoseconds to 256 ns, and the server counts in microseconds. Concurrency scores the end of
-- the lease in milliseconds. Scores of a rate limit lie above 10^16, those of concurrency below. So quotas of both modes may
-- share a key, and entries of an earlier mode do not disturb the later one.
--
-- The reference's counter of messages in flight, a plain number, counts as a full quota. It expires one window after the last
-- process that used it. A counter without an expiry is a leftover and is removed at once.

local key = KEYS[1]
local function foreign()
  if redis.call('TYPE', key).ok ~= 'string' then return false end
  if redis.call('PTTL', key) ~= -1 then return true end
  redis.call('DEL', key)
  return false
end
local function live(ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, string.format('%.0f', ms)) end
end
local time = redis.call('TIME')
