-- Appends answers to the journal of a batch. ARGV: id, member, epoch, entries and parts that it has, the answers.
-- Answer: appended; lost: another process has the batch; changed: the store has another journal than this process wrote.

local journal = key('journal', ARGV[1])
if not holds(ARGV[1], ARGV[2], ARGV[3]) then
  return 'lost'
end
local entries = redis.call('LLEN', journal)
if redis.call('LLEN', key('parts', ARGV[1])) ~= tonumber(ARGV[5]) then
  return 'changed'
end
if entries == tonumber(ARGV[4]) + 1 and redis.call('LINDEX', journal, -1) == ARGV[6] then
  return 'appended'
end
if entries ~= tonumber(ARGV[4]) then
  return 'changed'
end
redis.call('RPUSH', journal, ARGV[6])
return 'appended'
