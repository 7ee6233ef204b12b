-- Open batches, their lines without an answer, and the lines that get one each second, as a text.

local left, rate = 0, 0
local open = redis.call('ZRANGE', key('open'), 0, -1)
for _, id in ipairs(open) do
  local batch = redis.call('HMGET', key('batch', id), 'total', 'completed', 'failed', 'rate')
  local function number(at)
    return tonumber(batch[at] or 0)
  end
  left = left + math.max(0, number(1) - number(2) - number(3))
  rate = rate + number(4)
end
return { #open, left, tostring(rate) }
