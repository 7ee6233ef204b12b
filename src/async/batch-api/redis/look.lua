-- Renews the lease of a process on all batches that it holds, and takes free ones up to its share.
-- ARGV: member, milliseconds of the lease, 1 = takes free batches, 1 = also those of processes whose lease has run out.
-- Answer: id, owner, status and epoch of each batch that it holds.

local member, takes, inherits = ARGV[1], ARGV[3] == '1', ARGV[4] == '1'
local members, now = key('members'), time()
redis.call('ZADD', members, now + ARGV[2], member)
-- A process that drains needs its lease for what it holds, and no share.
if takes then
  redis.call('ZADD', key('takers'), now + ARGV[2], member)
else
  redis.call('ZREM', key('takers'), member)
end
if inherits then
  redis.call('ZREMRANGEBYSCORE', members, '-inf', '(' .. now)
  redis.call('ZREMRANGEBYSCORE', key('takers'), '-inf', '(' .. now)
end
local open = redis.call('ZRANGE', key('open'), 0, -1)
local share = math.ceil(#open / math.max(1, redis.call('ZCARD', key('takers'))))
local held, free = {}, {}
local lives = {}
local function tell(id, batch, epoch)
  held[#held + 1] = id
  held[#held + 1] = batch[3]
  held[#held + 1] = batch[4]
  held[#held + 1] = epoch
end
for _, id in ipairs(open) do
  local batch = redis.call('HMGET', key('batch', id), 'holder', 'epoch', 'owner', 'status')
  local holder = batch[1]
  if holder == member then
    tell(id, batch, batch[2])
  elseif takes then
    if lives[holder] == nil then
      lives[holder] = holder ~= '' and (not inherits or redis.call('ZSCORE', members, holder) ~= false)
    end
    if not lives[holder] then
      free[#free + 1] = { id, batch }
    end
  end
end
for _, each in ipairs(free) do
  if #held / 4 >= share then
    break
  end
  local id, batch = each[1], each[2]
  local hash = key('batch', id)
  redis.call('HSET', hash, 'holder', member)
  tell(id, batch, redis.call('HINCRBY', hash, 'epoch', 1))
end
return held
