-- Marks the current submissions of request ids to be cancelled; ids that are not active are ignored (async-processor 4.6).
-- ARGV: prefix of active tokens; prefix of cancel marks; seconds that a mark is kept; ids. Answer: the number of marked ids.

local marked = 0
for i = 4, #ARGV do
  local token = redis.call('GET', ARGV[1] .. ARGV[i])
  if token then
    redis.call('SET', ARGV[2] .. ARGV[i], token, 'EX', ARGV[3])
    marked = marked + 1
  end
end
return marked
