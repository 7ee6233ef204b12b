-- Retries that are due; nothing is moved.
-- KEYS: the set of retries. ARGV: most entries.
-- Answer: ms until the next one that is not due yet, -1 when there is none; then the entries.

local t = redis.call('TIME')
local now = t[1] .. '.' .. string.format('%06d', t[2])
local answer = { -1 }
local later = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if later[2] then answer[1] = math.min(1e9, math.ceil((tonumber(later[2]) - tonumber(now)) * 1000)) end
for i, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])) do answer[i + 1] = entry end
return answer
