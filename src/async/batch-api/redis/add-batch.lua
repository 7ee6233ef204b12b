-- Makes a batch. ARGV: id, owner, most open of the owner, most open of all, most kept of the owner, lanes, input, created,
-- expires, the other fields as names and values. Answer: added, caller-full, all-full, no-file.

local id, owner, lanes, input = ARGV[1], ARGV[2], tonumber(ARGV[6]), ARGV[7]
local batch = key('batch', id)
if redis.call('EXISTS', batch) == 1 then
  return 'added'
end
if tonumber(redis.call('HGET', key('opens'), owner) or 0) >= tonumber(ARGV[3]) then
  return 'caller-full'
end
if redis.call('ZCARD', key('open')) >= tonumber(ARGV[4]) then
  return 'all-full'
end
local file = redis.call('HMGET', key('file', input), 'owner', 'purpose')
if file[1] ~= owner or file[2] ~= 'batch' then
  return 'no-file'
end
-- The batches of one caller share a lane; a newcomer gets the one with the fewest.
local lane = redis.call('HGET', key('lane-of'), owner)
if not lane then
  local fewest
  for each = 0, lanes - 1 do
    local batches = tonumber(redis.call('HGET', key('lanes'), each) or 0)
    if not fewest or batches < fewest then
      fewest, lane = batches, tostring(each)
    end
  end
end
local seq = redis.call('INCR', key('seq'))
redis.call('HSET', batch, 'id', id, 'owner', owner, 'status', 'validating', 'input', input, 'created', ARGV[8],
  'expires', ARGV[9], 'lane', lane, 'seq', seq, 'holder', '', 'epoch', 0, unpack(ARGV, 10))
redis.call('ZADD', key('open'), seq, id)
redis.call('ZADD', key('all'), seq, id)
redis.call('ZADD', key('batches', owner), seq, id)
redis.call('HINCRBY', key('opens'), owner, 1)
redis.call('HINCRBY', key('lanes'), lane, 1)
redis.call('HSET', key('lane-of'), owner, lane)
redis.call('HINCRBY', key('inputs'), input, 1)
-- The oldest ended batch makes room for this one.
if redis.call('ZCARD', key('batches', owner)) > tonumber(ARGV[5]) then
  for _, old in ipairs(redis.call('ZRANGE', key('batches', owner), 0, tonumber(ARGV[3]))) do
    if not redis.call('ZSCORE', key('open'), old) then
      forget_batch(old, owner)
      break
    end
  end
end
return 'added'
