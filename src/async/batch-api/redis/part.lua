-- Replaces the journal of a batch by an object that has all its answers. ARGV: id, member, epoch, parts that it has, the object.
-- Answer: added; lost: another process has the batch; changed: the store has other parts than this process wrote.

local parts = key('parts', ARGV[1])
if not holds(ARGV[1], ARGV[2], ARGV[3]) then
  return 'lost'
end
if redis.call('LINDEX', parts, -1) == ARGV[5] then
  return 'added'
end
if redis.call('LLEN', parts) ~= tonumber(ARGV[4]) or not redis.call('ZSCORE', key('intents'), ARGV[5]) then
  return 'changed'
end
redis.call('RPUSH', parts, ARGV[5])
redis.call('DEL', key('journal', ARGV[1]))
redis.call('ZREM', key('intents'), ARGV[5])
return 'added'
