-- Removes a file of a caller. ARGV: id, owner. Answer: removed, unknown, in-use.

local file = redis.call('HMGET', key('file', ARGV[1]), 'owner', 'bytes')
if file[1] ~= ARGV[2] then
  return 'unknown'
end
if redis.call('HEXISTS', key('inputs'), ARGV[1]) == 1 then
  return 'in-use'
end
remove_file(ARGV[1], ARGV[2], file[2])
return 'removed'
