-- Puts requests back that llm-d-async claimed and no longer renews (async-processor 5.2.8).
-- KEYS: the queue; the claims of llm-d-async, their owners, their leases. ARGV: most claims; bytes after which it stops.
-- Answer: entries that went back; leases that have run out and are left.
--
-- llm-d-async keeps the end of a lease in Unix seconds, and puts a request back with its deadline as the score. The entry is in
-- the queue before its claim goes: a failure in between leaves it in both places, and to add it to the queue again changes
-- nothing. Without its owner, a claim cannot be settled by a process that wakes up late.

local queue, claims, owners, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local until_ = '(' .. redis.call('TIME')[1]
local back, bytes = 0, tonumber(ARGV[2])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', until_, 'LIMIT', 0, ARGV[1])) do
  if bytes <= 0 then break end
  local entry = redis.call('HGET', claims, id)
  if entry then
    local read, envelope = pcall(cjson.decode, entry)
    local data = read and type(envelope) == 'table' and envelope.data
    -- An entry that cannot be read goes first, and becomes a dead letter when it is claimed.
    local deadline = type(data) == 'table' and type(data.deadline) == 'number' and data.deadline or 0
    redis.call('ZADD', queue, string.format('%.0f', deadline), entry)
    back, bytes = back + 1, bytes - #entry
  end
  -- Early versions kept the score beside the entry.
  redis.call('HDEL', claims, id, id .. ':score')
  redis.call('HDEL', owners, id)
  redis.call('ZREM', leases, id)
end
return { back, redis.call('ZCOUNT', leases, '-inf', until_) }
