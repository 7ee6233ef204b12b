-- Takes due retries of the named queues and of no others. Retries of another deployment stay exactly where they are (hazard
-- H-10), and the next call goes on behind them instead of reading them again.
-- KEYS: the set of retries. ARGV: most entries to take; most entries to read; entries to skip; queue names.
-- Answer: the server's time; entries that the next call skips, -1 = the end was reached; then for each entry its queue and the
-- entry.

local t = redis.call('TIME')
local now = t[1] .. '.' .. string.format('%06d', t[2])
local limit, left, skip = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local ours = {}
for i = 4, #ARGV do ours[ARGV[i]] = true end
local function queue(entry)
  local start = string.match(entry, '^%s*{%s*"internal"%s*:%s*(%b{})')
  local ok, internal = pcall(cjson.decode, start)
  if not ok then
    local all
    ok, all = pcall(cjson.decode, entry)
    internal = ok and type(all) == 'table' and all.internal
  end
  return type(internal) == 'table' and internal.request_queue_name
end
local answer, last, taken = { now, -1 }, false, 0
while not last do
  if left == 0 or taken == limit then
    answer[2] = skip
    break
  end
  local want = math.min(left, 100)
  local page = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', skip, want)
  last = #page < want
  for _, entry in ipairs(page) do
    if taken == limit then
      last = false
      break
    end
    left = left - 1
    local name = queue(entry)
    if ours[name] then
      redis.call('ZREM', KEYS[1], entry)
      taken = taken + 1
      answer[2 * taken + 1], answer[2 * taken + 2] = name, entry
    else
      skip = skip + 1
    end
  end
end
return answer
