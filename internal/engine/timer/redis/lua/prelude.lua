-- Stands before every script. Everything a script touches is declared in KEYS, all of one hash tag; no key is made here.
--
-- KEYS[1]  meta of the shard: HASH epoch, run, high, shift
-- ARGV[1]  the epoch that the caller knows; '' = none yet
-- ARGV[2]  the epoch to begin with if the shard has none, or its server is not the one it was
-- ARGV[3]  the caller's reckoning of the shard's clock, in ms, which holds under ARGV[1]; '' = none yet
-- ARGV[4]  the caller's wall clock, in ms
-- ARGV[5]  what to take for TIME, in ms; '' = TIME. Only tests give it
--
-- A script returns {epoch, now, by how much the server's clock was found to have jumped, ...}; all times are ms.
local meta, epoch, now, stepped = KEYS[1], nil, nil, 0
local run, high, shift
local STEP = 60000 -- ms: a jump of the clock that is not taken for time that passed

-- identity names the reign of the server: its run and, since one may be replaced and come back, its replication; '' where the caller
-- may not ask (ACL).
local function identity()
  local info = redis.pcall('INFO', 'server', 'replication')
  if type(info) ~= 'string' then return '' end
  local id = string.match(info, 'run_id:(%x+)')
  return id and id .. (string.match(info, 'master_replid:(%x+)') or '') or ''
end

local function renew(id)
  epoch, run = ARGV[2], id
  redis.call('HSET', meta, 'epoch', epoch, 'run', run, 'high', high, 'shift', shift)
end

-- verify begins a new epoch if the server was restarted or replaced since the shard was last verified: the end of its log may
-- be lost, and nobody can tell what was in it.
local function verify()
  local id = identity()
  if id ~= run then renew(id) end
end

-- mark stores the clock's high-water mark.
local function mark()
  if now > high then
    high = now
    redis.call('HSET', meta, 'high', high)
  end
end

-- setClock: now = TIME + shift, never below the high-water mark. A jump away from what the caller reckons is taken out of
-- the clock by a new shift. Reckoned under this epoch it is the caller's monotonic clock that vouches for it, in both
-- directions; a wall clock alone can only hold the clock back. A mark that lies beyond the reckoning proves the reckoning stale.
local function setClock(time)
  now = time + shift
  local sure = ARGV[1] == epoch and tonumber(ARGV[3])
  local guess = sure or tonumber(ARGV[4])
  local want
  if now > guess + STEP and high <= guess + STEP then
    want = math.max(guess, high)
  else
    local floor = sure and math.max(high, sure) or high
    if now < floor - STEP then want = floor end
  end
  if want then
    stepped = now - want
    shift, now, high = shift - stepped, want, want
    redis.call('HSET', meta, 'shift', shift, 'high', high)
  end
  now = math.max(now, high)
end

local function enter()
  local m = redis.call('HMGET', meta, 'epoch', 'run', 'high', 'shift')
  local time = tonumber(ARGV[5])
  if not time then
    local t = redis.call('TIME')
    time = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  if not m[1] then -- the shard is new, or was lost
    now, high, shift = time, time, 0
    renew(identity())
    return
  end
  epoch, run, high, shift = m[1], m[2], tonumber(m[3]), tonumber(m[4])
  setClock(time)
end

-- lost: what the caller knew is of another epoch.
local function lost() return ARGV[1] ~= '' and ARGV[1] ~= epoch end
enter()
