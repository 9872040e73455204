package s3

import "github.com/redis/go-redis/v9"

// prelude is the code shared by all scripts. Every script works on the two keys of one upload,
// which share a hash tag and thus a slot:
//
//	KEYS[1]  <namespace>:{u:<upload id>}:j   HASH, the journal
//	KEYS[2]  <namespace>:{u:<upload id>}:l   HASH, leases of parts that are being written
//
// Fields of the journal; a missing field is the empty string:
//
//	s       state: "" open, "sealing", "sealed", "removed" (kept for an hour, for late requests)
//	m       id of the multipart upload that accepts parts
//	i       incarnation: random, new after each rebuild of a lost journal
//	f       highest gen that was fenced; in a rebuilt journal UNFENCED, which refuses all
//	t       when the last part was accepted, ms, by this Redis
//	r       reign: the Redis server on which the journal was last known complete: its run id and its replication id, since a
//	        replaced server may come back
//	u       multipart upload that an Unseal is filling
//	e       ETag of the content that an Unseal has left in its place
//	<n>     entry of part n, see entry.encode
//	o<n>    bytes of part n that may be in the store without an entry
//	p<n>    tail of part n, see tail.encode; never beside an entry
//	x       "1": there was a tail once, so that pieces may be in the store
//
// A lease is the field <n>: "<owner> <token> <gen> <expiry in ms>". TIME of Redis is the only
// clock.
//
// All answers are arrays that begin with a verdict:
//
//	ok           done
//	none         there is no journal: it is lost, or the upload never existed
//	state <s>    the journal is in state s, which does not permit the call
//	fenced <f>   the gen is not greater than f
//	busy         another owner holds the lease of the part
//	there <e>    the part is accepted already, with this entry
//	moved        the tail is not the one given
//	lost         the lease has expired or was taken away
const prelude = `
local J, L, UNFENCED = KEYS[1], KEYS[2], '9223372036854775807'
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function get(field) return redis.call('HGET', J, field) or '' end
local function int(x) return string.format('%.0f', x) end
local LONGEST = 600000 -- ms
-- the lease of part n while it lasts: owner, token, gen. One that lasts for longer than any was taken by a clock that was ahead.
local function lease(n, now)
  local v = redis.call('HGET', L, n)
  if not v then return nil end
  local owner, token, gen, expiry = string.match(v, '^(%S+) (%S+) (%-?%d+) (%d+)$')
  if not owner or tonumber(expiry) <= now or tonumber(expiry) > now + LONGEST then return nil end
  return owner, token, tonumber(gen)
end
local function setLease(n, owner, token, gen, expiry, ttl)
  redis.call('HSET', L, n, owner .. ' ' .. token .. ' ' .. gen .. ' ' .. int(expiry))
  redis.call('PEXPIRE', L, int(ttl * 4))
end
local function reign()
  local ok, info = pcall(redis.call, 'INFO', 'server', 'replication')
  local id = ok and type(info) == 'string' and string.match(info, 'run_id:(%x+)')
  return id and id .. (string.match(info, 'master_replid:(%x+)') or '') or ''
end
local function isUnread(e) return math.floor(string.byte(e, 2)) % 2 == 1 end
`

// script returns the script prelude + body.
func script(body string) *redis.Script { return redis.NewScript(prelude + body) }

// createScript creates the journal of an upload. Arguments: multipart upload id, incarnation.
// Answer: ok and the id of the multipart upload in the journal, which is another one if a
// concurrent call was faster.
var createScript = script(`
if redis.call('EXISTS', J) == 1 and get('s') ~= 'removed' then return {'ok', get('m')} end
redis.call('DEL', J, L)
redis.call('HSET', J, 'm', ARGV[1], 'i', ARGV[2], 'r', reign())
return {'ok', ARGV[1]}`)

// restoreScript stores a rebuilt journal. An existing journal stays unchanged. The fences are lost
// and only the row knows the current gen, so every gen is refused until the next fence. Arguments:
// incarnation, then pairs of field and value.
var restoreScript = script(`
if redis.call('EXISTS', J) == 1 then
  if get('s') == 'removed' then return {'state', 'removed'} end
  return {'ok'}
end
redis.call('HSET', J, 'i', ARGV[1], 'r', reign(), 'f', UNFENCED)
for i = 2, #ARGV, 2 do redis.call('HSET', J, ARGV[i], ARGV[i + 1]) end
return {'ok'}`)

// loadScript returns the whole journal. Answer: ok, journal, leases, now in ms, reign of this
// Redis.
var loadScript = script(`
if redis.call('EXISTS', J) == 0 then return {'none'} end
return {'ok', redis.call('HGETALL', J), redis.call('HGETALL', L), int(clock()), reign()}`)

// claimScript takes the lease of a part. From here on, the bytes that may reach the store count as
// held, until the part is accepted or known to be gone.
//
// ARGV 1 n, 2 owner, 3 token, 4 gen, 5 lease in ms, 6 largest size, 7 mode: "write"; "drop", 8 the
// entry to drop; or "extend", 8 the tail to extend
//
// Answer: ok, multipart upload id, incarnation, bytes of the part in the store before, the replaced
// tail.
//
// An extend requires the given tail (else moved) and keeps it; other modes remove the tail. An
// owner takes over its own lease, because it never writes one part twice at a time.
var claimScript = script(`
if redis.call('EXISTS', J) == 0 then return {'none'} end
local n, now = ARGV[1], clock()
local s = get('s')
if s ~= '' then return {'state', s} end
if tonumber(ARGV[4]) <= tonumber('0' .. get('f')) then return {'fenced', get('f')} end
local owner = lease(n, now)
if owner and owner ~= ARGV[2] then return {'busy'} end
local e = get(n)
local tail = get('p' .. n)
if ARGV[7] == 'extend' then
  if e ~= '' then return {'there', e} end
  if tail ~= ARGV[8] then return {'moved'} end
  tail = ''
  redis.call('HSET', J, 'x', '1')
elseif tail ~= '' and e == '' then
  redis.call('HDEL', J, 'p' .. n)
end
local was = tonumber('0' .. get('o' .. n))
if e ~= '' then
  if ARGV[7] == 'write' and not isUnread(e) then return {'there', e} end
  -- a call that comes late must not drop what was accepted since it was made
  if ARGV[7] == 'drop' and e ~= ARGV[8] then return {'lost'} end
  -- size of the entry: 8 bytes from the 15th
  local size = 0
  for i = 22, 15, -1 do size = size * 256 + string.byte(e, i) end
  was = math.max(was, size)
  redis.call('HDEL', J, n)
end
local held = math.max(was, tonumber(ARGV[6]))
if held > 0 then redis.call('HSET', J, 'o' .. n, int(held)) end
setLease(n, ARGV[2], ARGV[3], ARGV[4], now + ARGV[5], ARGV[5])
return {'ok', get('m'), get('i'), int(was), tail}`)

// renewScript renews a lease. Arguments: n, token, lease in ms.
var renewScript = script(`
local now = clock()
local v = redis.call('HGET', L, ARGV[1])
local owner, token, gen, expiry
if v then owner, token, gen, expiry = string.match(v, '^(%S+) (%S+) (%-?%d+) (%d+)$') end
if token ~= ARGV[2] or tonumber(expiry) <= now then return {'lost'} end
setLease(ARGV[1], owner, token, gen, now + ARGV[3], ARGV[3])
return {'ok'}`)

// releaseScript ends a lease without an entry. Arguments: n, token, bytes of the part that may be
// in the store.
var releaseScript = script(`
local v = redis.call('HGET', L, ARGV[1])
if not v or string.match(v, '^%S+ (%S+)') ~= ARGV[2] then return {'lost'} end
redis.call('HDEL', L, ARGV[1])
if get('m') == '' then return {'ok'} end
if ARGV[3] == '0' then redis.call('HDEL', J, 'o' .. ARGV[1])
else redis.call('HSET', J, 'o' .. ARGV[1], ARGV[3]) end
return {'ok'}`)

// appendScript accepts a part whose bytes are in the store: it adds the entry and ends the lease in
// one step (P2). Arguments: n, token, incarnation of the lease, gen, entry.
//
// Without its lease, a part is accepted only into a journal that was rebuilt since, if no other
// writer holds the part.
//
// The script runs once per part, so it avoids the functions of prelude, which are compiled for each
// call.
var appendScript = redis.NewScript(`
local J, L, n = KEYS[1], KEYS[2], ARGV[1]
local f = redis.call('HMGET', J, 's', 'i', 'f', n)
if not f[2] and not f[1] then return {'none'} end
if f[1] and f[1] ~= '' then return {'state', f[1]} end
local t = redis.call('TIME')
local now = t[1] .. string.format('%03d', math.floor(t[2] / 1000))
local v = redis.call('HGET', L, n)
local token, expiry
if v then token, expiry = string.match(v, '^%S+ (%S+) %-?%d+ (%d+)$') end
if not expiry or tonumber(expiry) <= tonumber(now) then token = nil end
if token == ARGV[2] then
  redis.call('HDEL', L, n)
else
  local e = f[4]
  if e and math.floor(string.byte(e, 2)) % 2 == 0 then return {'there', e} end
  if tonumber(ARGV[4]) <= tonumber(f[3] or '0') then return {'fenced', f[3]} end
  if token then return {'busy'} end
  if f[2] == ARGV[3] then return {'lost'} end
end
redis.call('HSET', J, n, ARGV[5], 't', now)
redis.call('HDEL', J, 'o' .. n, 'p' .. n)
return {'ok'}`)

// tailScript stores a tail whose bytes are in the store and ends the lease. Arguments: n, token,
// bytes of the part itself that may be in the store, tail. Without its lease nothing is stored,
// because another writer may have extended the tail.
var tailScript = script(`
if redis.call('EXISTS', J) == 0 then return {'none'} end
local n, s = ARGV[1], get('s')
if s ~= '' then return {'state', s} end
local owner, token = lease(n, clock())
if token ~= ARGV[2] then return {'lost'} end
redis.call('HDEL', L, n)
redis.call('HSET', J, 'p' .. n, ARGV[4], 't', int(clock()), 'x', '1')
if ARGV[3] == '0' then redis.call('HDEL', J, 'o' .. n) else redis.call('HSET', J, 'o' .. n, ARGV[3]) end
return {'ok'}`)

// fenceScript refuses a gen and all smaller ones, and removes leases of other owners under them.
// Arguments: gen, owner.
var fenceScript = script(`
if redis.call('EXISTS', J) == 0 then return {'none'} end
local s = get('s')
if s == 'removed' then return {'state', s} end
local gen = tonumber(ARGV[1])
if get('f') == UNFENCED or gen > tonumber('0' .. get('f')) then redis.call('HSET', J, 'f', ARGV[1]) end
local all = redis.call('HGETALL', L)
for i = 1, #all, 2 do
  local owner, g = string.match(all[i + 1], '^(%S+) %S+ (%-?%d+)')
  if owner ~= ARGV[2] and tonumber(g) <= gen then redis.call('HDEL', L, all[i]) end
end
return {'ok'}`)

// sealScript refuses parts while the multipart upload is completed. Answer: ok and the state
// before; busy if a part has a lease.
var sealScript = script(`
if redis.call('EXISTS', J) == 0 then return {'none'} end
local s, now = get('s'), clock()
if s ~= '' and s ~= 'sealing' then return {'state', s} end
for _, n in ipairs(redis.call('HKEYS', L)) do
  if lease(n, now) then return {'busy'} end
end
redis.call('HSET', J, 's', 'sealing')
return {'ok', s}`)

// moveScript changes the state. Arguments: incarnation, from, to. Answer: state if the journal is
// not in from.
var moveScript = script(`
if redis.call('EXISTS', J) == 0 then return {'none'} end
if get('i') ~= ARGV[1] or get('s') ~= ARGV[2] then return {'state', get('s')} end
redis.call('HSET', J, 's', ARGV[3])
return {'ok'}`)

// unsealScript records the multipart upload that an Unseal fills. Arguments: incarnation, multipart
// upload id. Answer: ok and the recorded id, which is another one if a concurrent call was faster.
var unsealScript = script(`
if redis.call('EXISTS', J) == 0 then return {'none'} end
if get('i') ~= ARGV[1] then return {'state', get('s')} end
if get('u') == '' then redis.call('HSET', J, 'u', ARGV[2]) end
return {'ok', get('u')}`)

// reopenScript ends an Unseal: it opens the journal with the filled multipart upload. Arguments:
// multipart upload id, ETag of the content that stays, then pairs of n and entry.
var reopenScript = script(`
if redis.call('EXISTS', J) == 0 then return {'none'} end
if get('u') ~= ARGV[1] then
  if get('m') == ARGV[1] then return {'ok'} end
  return {'state', get('s')}
end
redis.call('HDEL', J, 'u')
redis.call('HSET', J, 'm', ARGV[1], 's', '', 'e', ARGV[2])
for i = 3, #ARGV, 2 do redis.call('HSET', J, ARGV[i], ARGV[i + 1]) end
return {'ok'}`)

// repairScript replaces fields that still have their old value, except of parts with a lease.
// Arguments: incarnation, run id of the compared Redis (empty: unchanged), then triples of field,
// old and new value.
var repairScript = script(`
if redis.call('EXISTS', J) == 0 then return {'none'} end
if get('i') ~= ARGV[1] then return {'state', get('s')} end
local now = clock()
for i = 3, #ARGV, 3 do
  local field = ARGV[i]
  if get(field) == ARGV[i + 1] and not lease(string.match(field, '%d+$') or field, now) then
    if ARGV[i + 2] == '' then redis.call('HDEL', J, field) else redis.call('HSET', J, field, ARGV[i + 2]) end
  end
end
if ARGV[2] ~= '' then redis.call('HSET', J, 'r', ARGV[2]) end
return {'ok'}`)

// forgetScript deletes a wrong journal. Argument: incarnation; another incarnation stays.
var forgetScript = script(`
if get('i') == ARGV[1] then redis.call('DEL', J, L) end
return {'ok'}`)

// removeScript ends an upload: nothing is accepted any more. Argument: how long the state is kept,
// ms. Answer: ok and "1" if pieces of tails may be in the store.
var removeScript = script(`
local pieces = get('x')
if redis.call('EXISTS', J) == 0 or get('s') == 'removed' then pieces = '1' end
redis.call('DEL', J, L)
redis.call('HSET', J, 's', 'removed')
redis.call('PEXPIRE', J, ARGV[1])
return {'ok', pieces}`)
