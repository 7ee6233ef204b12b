-- Puts back claims that the store has lost (store-state.lua).
-- KEYS: the set of retries; then per queue: the queue, its claims, its leases, its owners.
-- ARGV: lease in ms; prefix of cancel marks; then per claim: number of its queue's first key, claim id, entry, score, request
-- id, token.
-- Answer per claim: one of the numbers below, or the server's reason for a failure.
--
-- The same entry leaves the queue and the retries, so that no process takes it a second time. Its score there counts.

local TAKEN, REINSTATED, HAS_ANSWER = 0, 1, 2
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local function reinstate(at)
  local first, id, entry, score = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local request, token = ARGV[at + 4], ARGV[at + 5]
  local queue, claims, leases, owners = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  if redis.call('HEXISTS', claims, id) == 1 then return REINSTATED end
  local was, trouble = made(owners, id)
  if trouble then return trouble end
  if was and not redis.call('ZSCORE', leases, id) then return TAKEN end
  if token ~= '' and redis.pcall('GET', ARGV[2] .. request) == ANSWERED_MARK .. token then return HAS_ANSWER end
  local waiting = redis.call('ZSCORE', queue, entry)
  redis.call('HSET', owners, id, string.format('1:%.0f', ms))
  redis.call('HSET', claims, id, (waiting or score) .. '\n' .. entry)
  redis.call('ZADD', leases, ms + ARGV[1], id)
  redis.call('ZREM', queue, entry)
  redis.pcall('ZREM', KEYS[1], entry)
  return REINSTATED
end
local answers = {}
for at = 3, #ARGV, 6 do
  local ok, answer = pcall(reinstate, at)
  answers[#answers + 1] = ok and answer or refusal(answer) or tostring(answer)
end
return answers
