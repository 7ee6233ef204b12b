-- Gives back all batches of a process that ends. ARGV: member.

for _, id in ipairs(redis.call('ZRANGE', key('open'), 0, -1)) do
  local batch = key('batch', id)
  if redis.call('HGET', batch, 'holder') == ARGV[1] then
    redis.call('HSET', batch, 'holder', '')
  end
end
redis.call('ZREM', key('members'), ARGV[1])
redis.call('ZREM', key('takers'), ARGV[1])
return 1
