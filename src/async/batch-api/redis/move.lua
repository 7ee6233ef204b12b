-- Moves a batch to another status. ARGV: id, member ('' = anybody may), epoch, status, 1 = the batch is open then, now in
-- seconds, the statuses it may have now (between commas), the milliseconds for which parts stay, the id and the type of the
-- event ('' = none), most events, the number of files; for each file its fields as in add-file.lua; then fields and values.
-- Answer: moved (with the event that was given up because too many wait, and its batch), stayed, lost (another process has it), late (an object was given up meanwhile).

local id, member, status, now = ARGV[1], ARGV[2], ARGV[4], ARGV[6]
local hash = key('batch', id)
local batch = redis.call('HMGET', hash, 'status', 'owner', 'lane', 'input', 'created', 'expires')
if not batch[1] then
  return 'stayed'
end
if member ~= '' and not holds(id, member, ARGV[3]) then
  return 'lost'
end
if not string.find(ARGV[7], ',' .. batch[1] .. ',', 1, true) then
  return 'stayed'
end
local owner, files = batch[2], tonumber(ARGV[12])
local first = 13
for at = 0, files - 1 do
  if not redis.call('ZSCORE', key('intents'), ARGV[first + 7 * at]) then
    return 'late'
  end
end
local fields = first + 7 * files
redis.call('HSET', hash, 'status', status, 'at:' .. status, now, unpack(ARGV, fields))
for at = 0, files - 1 do
  local file = first + 7 * at
  add_file(unpack(ARGV, file, file + 6))
  redis.call('ZREM', key('intents'), ARGV[file])
end
if ARGV[5] == '1' then
  return 'moved'
end
redis.call('HSET', hash, 'holder', '')
redis.call('ZREM', key('open'), id)
redis.call('ZADD', key('ended'), math.max(tonumber(batch[5]), tonumber(batch[6])), id)
lower(key('opens'), owner)
if redis.call('HEXISTS', key('opens'), owner) == 0 then
  redis.call('HDEL', key('lane-of'), owner)
end
lower(key('lanes'), batch[3])
lower(key('inputs'), batch[4])
-- A store that loses its last moments may have the batch open again: its parts stay for a while.
local parts = key('parts', id)
for _, part in ipairs(redis.call('LRANGE', parts, 0, -1)) do
  waste(part, time() + ARGV[8])
end
redis.call('DEL', parts, key('journal', id))
if ARGV[9] ~= '' then
  local event = ARGV[9]
  redis.call('HSET', key('events'), event, cjson.encode({ ARGV[10], id, now, redis.call('INCR', key('seq')) }))
  redis.call('ZADD', key('event-order'), now, event)
  redis.call('ZADD', key('event-due'), now, event)
  if redis.call('HLEN', key('events')) > tonumber(ARGV[11]) then
    local oldest = redis.call('ZRANGE', key('event-order'), 0, 0)[1]
    local crowded = cjson.decode(redis.call('HGET', key('events'), oldest))[2]
    drop_event(oldest, 'givenUp')
    return { 'moved', oldest, crowded }
  end
end
return 'moved'
