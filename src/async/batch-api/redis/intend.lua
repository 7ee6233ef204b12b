-- Notes an object before it is written, so that it is removed if nobody completes it. ARGV: the object, milliseconds for that.

redis.call('ZADD', key('intents'), time() + ARGV[2], ARGV[1])
return 1
