-- Extends leases (async-processor 5.2.8).
-- KEYS: per queue its claims, its leases and its owners. ARGV: ms from now; then per claim: number of its queue's first key,
-- claim id.
-- Answer: number of claims that were taken over, their positions (from 0), then the positions of claims that the store has lost
-- (store-state.lua).

local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local ends = ms + ARGV[1]
local taken, forgotten, touched = {}, {}, {}
-- An owner that renews is alive, and its number is kept.
local function touch(owners, owner)
  if not owner or touched[owners .. owner] then return end
  touched[owners .. owner] = true
  local mark = redis.call('HGET', owners, owner)
  if mark then redis.call('HSET', owners, owner, string.match(mark, '^%d+') .. ':' .. string.format('%.0f', ms)) end
end
for i = 2, #ARGV, 2 do
  local first, id = tonumber(ARGV[i]), ARGV[i + 1]
  if redis.call('HEXISTS', KEYS[first], id) == 1 then
    redis.call('ZADD', KEYS[first + 1], ends, id)
    touch(KEYS[first + 2], string.match(id, '^(.-):'))
  else
    local was, trouble = made(KEYS[first + 2], id)
    if trouble then return redis.error_reply(trouble) end
    local list = was and not redis.call('ZSCORE', KEYS[first + 1], id) and taken or forgotten
    list[#list + 1] = i / 2 - 1
  end
end
local answer = { #taken }
for _, at in ipairs(taken) do answer[#answer + 1] = at end
for _, at in ipairs(forgotten) do answer[#answer + 1] = at end
return answer
