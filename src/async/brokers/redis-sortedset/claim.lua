-- Takes entries out of a queue and keeps them as claims (async-processor 5.2.8).
--
-- KEYS: the queue, its claims, its leases, its owners.
-- ARGV: number of entries whose deadline lies ahead; number of entries past it; the begin of claim ids; the number of the
-- first; lease in ms; prefix of cancel marks; bytes after which it stops; number of the last claim that this owner made in this
-- queue (0 = none).
-- Answer: server time in ms, then for each claim, in order of score: the entry, and the cancel mark of the request id that
-- `markedId` finds in it. A negative time: nothing was claimed, because the store does not know that last claim: it has lost
-- data, see store-state.lua.
--
-- A claim is kept as `<score>\n<entry>`, with the exact score of the queue. Scores are deadlines, unless a producer has chosen
-- others: below the present, the deadline inside decides. The script believes the text's first `"deadline"` only when it equals
-- the score; else it decodes the entry. An unreadable entry counts as past its deadline. The search for entries past their
-- deadline ends at the first entry that lies ahead and is one too many.
-- Claims are written before the entries leave the queue: a failure on the way (a key of another type, no memory) leaves every
-- entry where it was.

local queue, claims, leases, owners = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner = string.sub(ARGV[3], 1, -2)
local live, late, bytes = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[7])
local t = redis.call('TIME')
local now = t[1] .. '.' .. string.format('%06d', t[2])
local seconds, ms = tonumber(now), t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HLEN', claims)
redis.call('ZCARD', leases)
if tonumber(string.match(redis.call('HGET', owners, owner) or '0', '^%d+')) < tonumber(ARGV[8]) then return { -ms } end

local function expired(entry, score)
  local named = tonumber(string.match(entry, '"deadline"%s*:%s*(%-?%d+)') or '')
  if named == tonumber(score) then return true end
  local ok, value = pcall(cjson.decode, entry)
  local data = ok and type(value) == 'table' and value.data
  named = type(data) == 'table' and tonumber(data.deadline)
  return not named or named < seconds
end

local entries, scores = {}, {}
local function take(entry, score)
  entries[#entries + 1] = entry
  scores[#scores + 1] = score
  bytes = bytes - #entry
end

local past = redis.call('ZCOUNT', queue, '-inf', '(' .. now)
local from, last = 0, math.min(past, live + late) - 1
while from <= last and bytes > 0 do
  local found = redis.call('ZRANGE', queue, from, math.min(from + 31, last), 'WITHSCORES')
  from = from + 32
  for i = 1, #found, 2 do
    if bytes <= 0 then break end
    if expired(found[i], found[i + 1]) then
      if late > 0 then
        late = late - 1
        take(found[i], found[i + 1])
      end
    elseif live > 0 then
      live = live - 1
      take(found[i], found[i + 1])
    else
      from = last + 1
      break
    end
  end
end
if live > 0 then
  local found = redis.call('ZRANGEBYSCORE', queue, now, '+inf', 'WITHSCORES', 'LIMIT', 0, live)
  for i = 1, #found, 2 do
    if bytes <= 0 then break end
    take(found[i], found[i + 1])
  end
end

local answer = { ms }
if #entries > 0 then
  local held, until_, marks, asked = {}, {}, {}, {}
  for i, entry in ipairs(entries) do
    local id = ARGV[3] .. string.format('%.0f', ARGV[4] + i - 1)
    held[2 * i - 1], held[2 * i] = id, scores[i] .. '\n' .. entry
    until_[2 * i - 1], until_[2 * i] = ms + ARGV[5], id
    local _, from = string.find(entry, '"data":{"id":"', 1, true)
    local to = from and string.find(entry, '"', from + 1, true)
    if to then
      marks[#marks + 1] = ARGV[6] .. string.sub(entry, from + 1, to - 1)
      asked[#marks] = 2 * i + 1
    end
    answer[2 * i], answer[2 * i + 1] = entry, false
  end
  redis.call('HSET', owners, owner, string.format('%.0f:%.0f', ARGV[4] + #entries - 1, ms))
  redis.call('HSET', claims, unpack(held))
  redis.call('ZADD', leases, unpack(until_))
  redis.call('ZREM', queue, unpack(entries))
  if #marks > 0 then
    for i, mark in ipairs(redis.call('MGET', unpack(marks))) do answer[asked[i]] = mark end
  end
end
return answer
