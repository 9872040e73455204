-- Prefix of every script. A script declares all its keys in KEYS, with one hash tag; it never builds key names.
--
-- KEYS[1]  meta of the shard: HASH epoch, run, high, shift
-- ARGV[1]  epoch known to the caller; '' = none yet
-- ARGV[2]  new epoch, used if the shard has none or its server was restarted or replaced
-- ARGV[3]  shard's clock in ms as expected by the caller, valid for the epoch ARGV[1]; '' = none yet
-- ARGV[4]  caller's wall clock in ms
-- ARGV[5]  replacement for TIME in ms, in tests; '' = TIME
--
-- A script returns {epoch, now, size of a detected clock step, ...}; all times are in ms.
local meta, epoch, now, stepped = KEYS[1], nil, nil, 0
local run, high, shift
local STEP = 60000 -- ms: a greater difference is a clock step, not elapsed time

-- identity returns the run id of the server and, because a replaced server may return, its replication id; '' if an ACL forbids
-- INFO.
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

-- verify starts a new epoch if the server was restarted or replaced since the last check: the end of its log may be lost.
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

-- setClock sets now = TIME + shift, at least the high-water mark. If now differs from the caller's expectation by more than
-- STEP, the shift is corrected. An expectation of the present epoch comes from the caller's monotonic clock and corrects both
-- ways; a wall clock only corrects a jump ahead. A high-water mark beyond the expectation proves it stale.
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

-- lost reports whether the caller knows another epoch.
local function lost() return ARGV[1] ~= '' and ARGV[1] ~= epoch end
enter()
