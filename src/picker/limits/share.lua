-- Adds what one gateway used of some limits to what all gateways used, and tells the gateway the sums (docs/adr/0028-limits.md).
--
-- KEYS: for each counter a hash: `r` used requests, `k` used tokens, `at` the server's time of both in ms; for each gateway
-- `g:<gateway>` = `<requests in flight>:<server time in ms>:<number of its last round>`.
-- ARGV: the gateway; ms after which a gateway that is silent has died; ms that a counter is kept; then for each counter: number of
-- the gateway's round; requests and tokens used since the round before (below 0 = given back); the gateway's own figures of all
-- used requests and tokens, without that use; requests and tokens per minute that the rule allows (0 = no limit); its requests
-- in flight; the most that may be used, as a multiple of the limit.
-- Answer: for each counter: used requests, used tokens, requests in flight of the other gateways, gateways with this one. Used
-- figures are texts with fractions.
--
-- A round that arrives twice counts once. A counter that the server does not know, because it is new, expired or lost, begins with
-- the gateway's own figures. The time of the server may jump: back drains nothing, and an entry from the future is as old as one
-- from the past.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local own, silence, kept = 'g:' .. ARGV[1], tonumber(ARGV[2]), ARGV[3]
local answer = {}

local function drained(used, passed, limit) return math.max(0, used - math.max(0, passed) * limit / 60000) end
local function filled(used, more, limit, most) return math.min(math.max(0, used + more), math.max(used, limit * most)) end

for i, key in ipairs(KEYS) do
  local at = 4 + (i - 1) * 9
  local round, requests, tokens = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local perMinute, tokensPerMinute = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  local most = tonumber(ARGV[at + 8])
  local r, k, since, heard, others, gateways = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), now, 0, 0, 1
  local gone = {}
  local fields = redis.call('HGETALL', key)
  for f = 1, #fields, 2 do
    local name, value = fields[f], fields[f + 1]
    if name == 'r' then r = tonumber(value)
    elseif name == 'k' then k = tonumber(value)
    elseif name == 'at' then since = tonumber(value)
    elseif name == own then heard = tonumber(string.match(value, ':(%d+)$'))
    else
      local inFlight, seen = string.match(value, '^(%d+):(%d+):')
      if math.abs(now - tonumber(seen)) > silence then gone[#gone + 1] = name
      else
        others = others + tonumber(inFlight)
        gateways = gateways + 1
      end
    end
  end
  r, k = drained(r, now - since, perMinute), drained(k, now - since, tokensPerMinute)
  if round > heard then
    r, k = filled(r, requests, perMinute, most), filled(k, tokens, tokensPerMinute, most)
  end
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  local mark = string.format('%s:%.0f:%.0f', ARGV[at + 7], now, math.max(round, heard))
  redis.call('HSET', key, 'r', string.format('%.3f', r), 'k', string.format('%.3f', k), 'at', string.format('%.0f', now), own, mark)
  redis.call('PEXPIRE', key, kept)
  answer[4 * i - 3], answer[4 * i - 2] = string.format('%.3f', r), string.format('%.3f', k)
  answer[4 * i - 1], answer[4 * i] = others, gateways
end
return answer
