-- First entries of a queue with their scores as texts. KEYS: the queue. ARGV: how many.

return redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
