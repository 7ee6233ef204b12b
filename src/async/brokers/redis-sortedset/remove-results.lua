-- Removes the oldest entries as long as their SHA-1 sums match. KEYS: the list. ARGV: the sums.

for i, sum in ipairs(ARGV) do
  local text = redis.call('LINDEX', KEYS[1], -1)
  if not text or redis.sha1hex(text) ~= sum then return i - 1 end
  redis.call('RPOP', KEYS[1])
end
return #ARGV
