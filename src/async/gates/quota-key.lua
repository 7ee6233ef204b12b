-- What the scripts of quotas begin with. KEYS: the set.
--
-- Both modes keep a sorted set under `<prefix><attribute>:<value>`, by the server's clock: processes whose clocks differ
-- count alike. Rate limits score the instant of admission in nanoseconds, as the reference does, so that its processes and
-- ours share one window; a double holds them to 256 ns, and the server counts in microseconds. Concurrency scores the end
-- of the lease in milliseconds. The two never meet: scores of one lie above 10^16, those of the other below, so quotas of
-- both modes may share a key, and what one leaves behind when the mode is changed does not disturb the other.
--
-- The reference's counter of messages in flight, a plain number, counts as a full quota: it goes away by itself one window
-- after the last process that used it; without an expiry it is left over and goes at once.

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
