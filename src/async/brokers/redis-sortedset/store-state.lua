-- The begin of renew.lua, reinstate.lua and settle.lua: the meaning of a claim that is not in the store.
--
-- Two cases look alike. Another process took the message over because the lease ran out: only its answer counts. Or the store
-- has lost data: only this process has the answer.
--
-- The store tells them apart by the hash `{queue}:owners`. Its field `<owner>` is the highest number that this process has
-- given to a claim in this queue; claim.lua writes the number and the claim in one step. A store that was emptied has
-- no such field. A store that went back in time (a replica that lagged and was promoted, a snapshot, a cut-off log) has a
-- smaller number: it holds all of the history up to some moment and nothing after. A field with the name of a claim id means
-- that this claim was put back after such a loss.
--
-- | claim | lease | owners | mark "answered" | meaning | an answer in hand |
-- |---|---|---|---|---|---|
-- | there | any | any | none | held by this process | is written |
-- | there | any | any | this token | held by this process, but another process has answered the message from its own hands | is dropped: `answered` |
-- | gone | there | any | any | the hash of claims was lost | is written, as recovered |
-- | gone | gone | knows the claim | any | taken over, or settled before | is dropped: `taken` |
-- | gone | gone | does not know it | none | the store has lost data | is written, as recovered; an entry that waits again leaves the queue |
-- | gone | gone | does not know it | this token | the same, but another process has answered | is dropped: `answered` |
--
-- "Recovered" works through the claim: reinstate.lua puts it back, with a lease and under the same id, and takes the same entry
-- out of the queue and out of the retries. The claim is then like any other: it can be renewed, settled, retried, and taken
-- over when this process dies. Renewing a lease puts the claim back as well, before there is an answer.
--
-- In a store that went back in time, another process may have claimed the same message before the claim is put back. The first
-- answer then counts: a recovered answer leaves the mark "answered" in place of the cancel mark. A claim of a message with that
-- mark is dropped before a request is sent, and its result is dropped before it is written. The mark does not cover an answer
-- that the other process wrote *before* this process, and messages without a request token. Those may get two results.

-- In front of the token in a cancel mark (`ANSWERED_PREFIX` in keys.ts).
local ANSWERED_MARK = 'answered:'
local function refusal(reply)
  return type(reply) == 'table' and reply.err
end
-- Returns whether the store knows that this claim was made, and the reason when it cannot be asked.
local function made(owners, id)
  local owner, number = string.match(id, '^(.-):(%d+)$')
  local mark = redis.pcall('HGET', owners, owner)
  if refusal(mark) then return true, refusal(mark) end
  if mark and tonumber(string.match(mark, '^%d+')) >= tonumber(number) then return true end
  return redis.pcall('HEXISTS', owners, id) == 1
end
