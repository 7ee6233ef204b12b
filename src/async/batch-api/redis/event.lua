-- Notes what becomes of an event. ARGV: id, step, and for begin, failed and cut: when it is due; for begin: its attempts so far;
-- for end: delivered or givenUp, and the failed attempts. Answer: 1; 0 = the event is gone, or another process has begun.

local id, step = ARGV[1], ARGV[2]
local attempts, tallies = key('event-attempts'), key('event-tallies')
if redis.call('HEXISTS', key('events'), id) == 0 then
  return 0
end
if step == 'end' then
  redis.call('HINCRBY', tallies, 'failedAttempts', ARGV[4])
  drop_event(id, ARGV[3])
  return 1
end
if step == 'begin' then
  if (redis.call('HGET', attempts, id) or '0') ~= ARGV[4] then
    return 0
  end
  redis.call('HINCRBY', attempts, id, 1)
elseif step == 'failed' then
  redis.call('HINCRBY', tallies, 'failedAttempts', 1)
else
  redis.call('HINCRBY', attempts, id, -1)
end
redis.call('ZADD', key('event-due'), ARGV[3], id)
return 1
