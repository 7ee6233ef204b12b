-- Stands before every script. KEYS[1]: the start of all keys, which share one hash tag.

local base = KEYS[1]

local function key(...)
  return base .. ':' .. table.concat({ ... }, ':')
end

-- Milliseconds of the store's clock: leases compare times of one clock alone.
local function time()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- Whether a process still holds a batch since it took it with this epoch.
local function holds(id, member, epoch)
  local held = redis.call('HMGET', key('batch', id), 'holder', 'epoch')
  return held[1] == member and held[2] == epoch
end

-- Gives an object of the bucket away: nothing refers to it. due: milliseconds from when on it is removed.
local function waste(object, due)
  redis.call('ZADD', key('waste'), due, object)
end

local function lower(hash, field)
  if redis.call('HINCRBY', hash, field, -1) <= 0 then
    redis.call('HDEL', hash, field)
  end
end

local function add_file(id, owner, purpose, filename, bytes, created, expires)
  redis.call('HSET', key('file', id), 'id', id, 'owner', owner, 'purpose', purpose, 'filename', filename, 'bytes', bytes,
    'created', created, 'expires', expires)
  redis.call('ZADD', key('files', owner), redis.call('INCR', key('seq')), id)
  redis.call('ZADD', key('expiring'), expires, id)
  redis.call('HINCRBY', key('bytes'), owner, bytes)
end

local function remove_file(id, owner, bytes)
  redis.call('DEL', key('file', id))
  redis.call('ZREM', key('files', owner), id)
  redis.call('ZREM', key('expiring'), id)
  if redis.call('HINCRBY', key('bytes'), owner, -bytes) <= 0 then
    redis.call('HDEL', key('bytes'), owner)
  end
  waste(id, time())
end

local function forget_batch(id, owner)
  redis.call('DEL', key('batch', id))
  redis.call('ZREM', key('all'), id)
  redis.call('ZREM', key('ended'), id)
  redis.call('ZREM', key('batches', owner), id)
end

-- Takes an event off the list of those that wait. tally: what became of it, delivered or givenUp.
local function drop_event(id, tally)
  redis.call('HDEL', key('events'), id)
  redis.call('HDEL', key('event-attempts'), id)
  redis.call('ZREM', key('event-due'), id)
  redis.call('ZREM', key('event-order'), id)
  redis.call('HINCRBY', key('event-tallies'), tally, 1)
end
