-- Settles claims of any queues, each on its own: a failure leaves the other claims alone (async-processor 5.2.8, H-24).
--
-- KEYS: for each queue of the batch, in a row: the queue, its claims, its leases, its dead letters, its owners; and any lists
-- of results and sets of retries.
-- ARGV: prefix of active tokens; prefix of cancel marks; then per settlement, eight values:
--   what: `result`, `retry`, `refuse`, `dead`; `recovered`: the result of a claim that was put back; `drop`: the claim goes
--   and nothing is written; or `requeue`, `bury`: as `refuse`, `dead`, if the lease has run out;
--   number of the queue's first key; claim id; number of the target's key (list of results, set of retries), or 0;
--   text: the result, or the envelope where it changes (empty = unchanged); due time of a retry, or reason of a dead letter;
--   request id; token.
--
-- A process that knows the id of an existing claim owns it, because no id is used twice. A claim that was settled or reclaimed
-- is gone, so repeating a settlement writes nothing. For the meaning of a missing claim see store-state.lua. The script writes
-- the message's new place first, then removes the claim. A result whose list is a key of another type goes to the dead letters,
-- beside its entry.
-- Answer per settlement: one of the numbers below, or the server's reason for a failure.

local FENCED, SETTLED, DEAD_LETTERED, FORGOTTEN, ANSWERED = 0, 1, 2, 3, 4
-- Milliseconds that the mark "answered" is kept, as long as a cancel mark.
local ANSWERED_FOR = 7 * 24 * 3600000
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)

local function problem(reply)
  return type(reply) == 'table' and reply.err
end
local function wrong_type(reply)
  local text = problem(reply)
  return text and string.find(text, 'WRONGTYPE', 1, true)
end
local function kept(claims, id)
  local value = redis.call('HGET', claims, id)
  local at = string.find(value, '\n', 1, true)
  return string.sub(value, 1, at - 1), string.sub(value, at + 1)
end
local function letter(claims, id, reason, result)
  local _, entry = kept(claims, id)
  local text = '{"entry":' .. cjson.encode(entry) .. ',"reason":' .. cjson.encode(reason)
  if result then text = text .. ',"result":' .. cjson.encode(result) end
  return text .. ',"at":' .. string.format('%.0f', ms) .. '}'
end
local function forget(id, token, mark)
  if token == '' then return end
  if redis.pcall('GET', ARGV[1] .. id) == token then redis.call('DEL', ARGV[1] .. id) end
  if mark == token then redis.call('DEL', ARGV[2] .. id) end
end
local function leave(claims, leases, id)
  redis.call('HDEL', claims, id)
  redis.call('ZREM', leases, id)
end

local function settle(at)
  local what, first, id = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local target, text, extra = KEYS[tonumber(ARGV[at + 3])], ARGV[at + 4], ARGV[at + 5]
  local queue, claims, leases, dead = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  local request, token = ARGV[at + 6], ARGV[at + 7]
  local known = redis.pcall('HEXISTS', claims, id)
  if problem(known) then return problem(known) end
  if known == 0 then
    if what == 'requeue' or what == 'bury' or what == 'drop' then return FENCED end
    local lease = redis.pcall('ZSCORE', leases, id)
    if problem(lease) then return problem(lease) end
    local was, trouble = made(KEYS[first + 4], id)
    if trouble then return trouble end
    if lease or not was then return FORGOTTEN end
    return FENCED
  end
  if what == 'requeue' or what == 'bury' then
    local lease = redis.call('ZSCORE', leases, id)
    if lease and tonumber(lease) > ms then return FENCED end
  end

  local ends = what == 'result' or what == 'recovered' or what == 'dead' or what == 'bury'
  local mark = ends and token ~= '' and redis.pcall('GET', ARGV[2] .. request)
  if mark == ANSWERED_MARK .. token then
    leave(claims, leases, id)
    return ANSWERED
  end

  local outcome, reply = SETTLED, nil
  if what == 'result' or what == 'recovered' then
    reply = redis.pcall('LPUSH', target, text)
    if wrong_type(reply) then
      reply = redis.pcall('LPUSH', dead, letter(claims, id, 'the key ' .. target .. ' for its result holds another type', text))
      outcome = DEAD_LETTERED
    end
  elseif what == 'retry' then
    reply = redis.pcall('ZADD', target, extra, text)
  elseif what == 'refuse' or what == 'requeue' then
    local score, entry = kept(claims, id)
    reply = redis.pcall('ZADD', queue, score, text ~= '' and text or entry)
  elseif what ~= 'drop' then
    reply = redis.pcall('LLEN', dead)
    if problem(reply) then return problem(reply) end
    local unsent = nil
    if target then
      reply = redis.pcall('LPUSH', target, text)
      if wrong_type(reply) then unsent = text elseif problem(reply) then return problem(reply) end
    end
    reply = redis.pcall('LPUSH', dead, letter(claims, id, extra, unsent))
  end
  if problem(reply) then return problem(reply) end

  leave(claims, leases, id)
  if ends then forget(request, token, mark) end
  if what == 'recovered' and token ~= '' then
    redis.call('SET', ARGV[2] .. request, ANSWERED_MARK .. token, 'PX', ANSWERED_FOR)
  end
  return outcome
end

local outcomes = {}
for at = 3, #ARGV, 8 do outcomes[#outcomes + 1] = settle(at) end
return outcomes
