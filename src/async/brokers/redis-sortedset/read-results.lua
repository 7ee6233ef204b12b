-- The oldest entries of a list (its right end), up to `bytes`. KEYS: the list. ARGV: most entries, bytes.

local found, bytes = {}, tonumber(ARGV[2])
for i = 1, ARGV[1] do
  local text = redis.call('LINDEX', KEYS[1], -i)
  if not text then break end
  found[i] = text
  bytes = bytes - #text
  if bytes <= 0 then break end
end
return found
