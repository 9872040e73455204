-- Second part of the scripts that change index entries.
--
-- KEYS[2]  st: HASH id -> state      KEYS[3]  dir: ZSET slice -> its first ms      KEYS[4]  inf: ZSET id -> time of redelivery
-- KEYS[5]  ev: HASH id -> timer as it fired      KEYS[6...]  slices: ZSET id -> index time; a name ends in m<minute> or h<hour>
local st, dir, inf, ev = KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local FORMAT, LEASED, TOUCHED, COARSE = 16, 1, 2, 4
local STATE, FIRED = '>I1i8c16I6I6I6I6I6', '>c8i8c16I6I6I6I4I4'
local PUSHED = 56 -- position of the push-back count in a state that has one
local MINUTE, HOUR = 60000, 3600000

local declared = {}
for i = 6, #KEYS do declared[string.match(KEYS[i], ':([mh]%d+)$')] = KEYS[i] end

-- decode returns the fields of a stored timer.
local function decode(v)
  local t = {}
  t.flags, t.gen, t.account, t.idle, t.max, t.first, t.last, t.at = struct.unpack(STATE, v)
  t.pushed = #v > PUSHED and struct.unpack('>I4', v, PUSHED) or 0
  t.leased = bit.band(t.flags, LEASED) ~= 0
  t.touched = bit.band(t.flags, TOUCHED) ~= 0
  t.coarse = bit.band(t.flags, COARSE) ~= 0
  return t
end

local function encode(t)
  local flags = FORMAT + (t.leased and LEASED or 0) + (t.touched and TOUCHED or 0) + (t.coarse and COARSE or 0)
  return struct.pack(STATE, flags, t.gen, t.account, t.idle, t.max, t.first, t.last, t.at) .. (t.pushed > 0 and struct.pack('>I4', t.pushed) or '')
end

local function due(t)
  local d = t.last + t.idle
  if t.max > 0 then d = math.min(d, t.first + t.max) end
  return d
end

-- slice returns the slice of a timer: by the minute if its idle time or cap is less than an hour, else by the hour.
local function slice(t)
  if t.coarse then return 'h' .. string.format('%.0f', math.floor(t.at / HOUR)) end
  return 'm' .. string.format('%.0f', math.floor(t.at / MINUTE))
end

local function place(t, at)
  t.at, t.coarse = at, (t.max > 0 and math.min(t.idle, t.max) or t.idle) >= HOUR
  return slice(t)
end

local function begins(code)
  return tonumber(string.sub(code, 2)) * (string.sub(code, 1, 1) == 'h' and HOUR or MINUTE)
end

-- usable reports whether the caller has declared a slice. If not, the reply asks the caller to declare it and call again.
local needed, needs = {}, {}
local function usable(code)
  if declared[code] then return true end
  if not needed[code] then
    needed[code] = true
    needs[#needs + 1] = code
  end
  return false
end

-- Writes are collected and made at the end: first those that keep timers, then those that remove them.
local states, added, dropped, gone = {}, {}, {}, {}
local leases, events, unleased = {}, {}, {}

local function addTo(lists, code, ...)
  local l = lists[code]
  if not l then
    l = {}
    lists[code] = l
  end
  for _, v in ipairs({...}) do l[#l + 1] = v end
end

local function callInChunks(cmd, key, args, step)
  for i = 1, #args, step do redis.call(cmd, key, unpack(args, i, math.min(i + step - 1, #args))) end
end

local function storeState(id, t)
  states[#states + 1] = id
  states[#states + 1] = encode(t)
end

local function commit()
  callInChunks('HSET', ev, events, 1000)
  callInChunks('ZADD', inf, leases, 1000)
  callInChunks('HSET', st, states, 1000)
  for code, list in pairs(added) do
    callInChunks('ZADD', declared[code], list, 1000)
    if not redis.call('ZSCORE', dir, code) then redis.call('ZADD', dir, begins(code), code) end
  end
  for code, list in pairs(dropped) do
    callInChunks('ZREM', declared[code], list, 1000)
    if redis.call('EXISTS', declared[code]) == 0 then redis.call('ZREM', dir, code) end
  end
  callInChunks('ZREM', inf, unleased, 1000)
  callInChunks('HDEL', ev, unleased, 1000)
  callInChunks('HDEL', st, gone, 1000)
end

-- move moves a pending timer to the slice of t.at. was is its old slice, nil for none.
local function move(id, t, was)
  local code = slice(t)
  addTo(added, code, string.format('%.0f', t.at), id)
  if was and was ~= code then addTo(dropped, was, id) end
  storeState(id, t)
end
