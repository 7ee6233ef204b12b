-- Claims of a queue whose lease has run out.
-- KEYS: its claims, its leases, its owners. ARGV: most claims; lease in ms for claims that have none; the range in ms of server
-- times that means an unchanged clock (../store-clock.ts).
-- Answer: server time in ms, then for each claim its id and its stored text: `<score>\n<entry>`. After a jump of the clock
-- there are none: every lease begins again.
--
-- The script also mends leftovers of other programs: a lease without a claim goes, a claim without a lease gets one, and owners
-- that have done nothing for a day are forgotten when there are many.

-- With more owners than this, those that have done nothing for a day (ms) are forgotten.
local OWNERS, OWNER_KEPT = 1000, 24 * 3600000
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('HLEN', KEYS[1]) > redis.call('ZCARD', KEYS[2]) then
  for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
    redis.call('ZADD', KEYS[2], 'NX', ms + ARGV[2], id)
  end
end
if redis.call('HLEN', KEYS[3]) > OWNERS then
  local fields = redis.call('HGETALL', KEYS[3])
  for i = 1, #fields, 2 do
    if tonumber(string.match(fields[i + 1], ':(%d+)$') or 0) < ms - OWNER_KEPT then redis.call('HDEL', KEYS[3], fields[i]) end
  end
end
if ms < tonumber(ARGV[3]) or ms > tonumber(ARGV[4]) then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do redis.call('ZADD', KEYS[2], ms + ARGV[2], id) end
  return { ms }
end
local answer = { ms }
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ms, 'LIMIT', 0, ARGV[1])) do
  local value = redis.call('HGET', KEYS[1], id)
  if value then
    answer[#answer + 1] = id
    answer[#answer + 1] = value
  else
    redis.call('ZREM', KEYS[2], id)
  end
end
return answer
