-- Adds a file whose object is whole. ARGV: id, owner, purpose, filename, bytes, created, expires, most files, most bytes.
-- Answer: added, too-many-files, too-many-bytes; late: the object was given up meanwhile.

local id, owner, bytes = ARGV[1], ARGV[2], tonumber(ARGV[5])
if redis.call('EXISTS', key('file', id)) == 1 then
  return 'added'
end
if not redis.call('ZSCORE', key('intents'), id) then
  return 'late'
end
local refusal
if redis.call('ZCARD', key('files', owner)) >= tonumber(ARGV[8]) then
  refusal = 'too-many-files'
elseif tonumber(redis.call('HGET', key('bytes'), owner) or 0) + bytes > tonumber(ARGV[9]) then
  refusal = 'too-many-bytes'
end
if refusal then
  waste(id, time())
else
  add_file(id, owner, ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7])
end
redis.call('ZREM', key('intents'), id)
return refusal or 'added'
