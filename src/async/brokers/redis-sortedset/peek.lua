-- First entries of a queue with their scores as texts. KEYS: the queue. ARGV: most entries.

return redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
