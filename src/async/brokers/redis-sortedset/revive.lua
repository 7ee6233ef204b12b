-- Moves the oldest dead letters back, each if it still exists.
-- KEYS: the dead letters, the queue. ARGV per letter: the letter, its new entry, its score.
-- Answer: the number of moved letters.

local moved = 0
redis.call('ZCARD', KEYS[2])
for i = 1, #ARGV, 3 do
  if redis.call('LREM', KEYS[1], -1, ARGV[i]) == 1 then
    redis.call('ZADD', KEYS[2], ARGV[i + 2], ARGV[i + 1])
    moved = moved + 1
  end
end
return moved
