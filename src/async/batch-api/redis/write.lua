-- Writes fields of a batch. ARGV: id, member, epoch, fields and values. Answer: 1; 0 = another process has the batch.

if not holds(ARGV[1], ARGV[2], ARGV[3]) then
  return 0
end
redis.call('HSET', key('batch', ARGV[1]), unpack(ARGV, 4))
return 1
