-- LEASE: takes timers that are due, the oldest first, and freezes each under a token (timer.Queue.Lease).
-- KEYS     as in the index
-- ARGV[6]  limit   [7] hold, ms   [8] name of this call, 6 bytes   [9] holder   [10] '1' = verify the server even if nothing is due
-- ARGV[11] names of calls whose replies the caller never got
-- returns  {epoch, now, stepped, when more may come up or -1, slices to declare, early, oldest slices, {id, fired, ...},
--          1 if there was no room for all that ARGV[11] had leased}
--
-- The slice of every entry lies within its minute or hour, so of the slices that have begun only the present minute and the
-- present hour can hold what is not due: HEADS of them always reach what is.
local HEADS, SCAN = 6, 16
local limit, hold = tonumber(ARGV[6]), tonumber(ARGV[7])
local early, out, had = 0, {}, {}

-- fire freezes a timer. more is what stands behind the holder's name: a zero byte, the push-backs, and where it was indexed.
local function fire(id, e, more)
  e.delivery = e.delivery + 1
  local blob = struct.pack(FIRED, e.token, e.gen, e.account, e.first, e.last, e.due, e.attempt, e.delivery) .. ARGV[8] .. ARGV[9] .. more
  events[#events + 1] = id
  events[#events + 1] = blob
  leases[#leases + 1] = string.format('%.0f', now + hold)
  leases[#leases + 1] = id
  out[#out + 1] = id
  out[#out + 1] = blob
end

-- again delivers leases that ran out: as they were, under the same token.
local function again()
  local ids = redis.call('ZRANGEBYSCORE', inf, '-inf', now, 'LIMIT', 0, limit)
  if #ids == 0 then return end
  for i, v in ipairs(redis.call('HMGET', ev, unpack(ids))) do
    if had[ids[i]] or #out / 2 >= limit then
      -- regained just now, or no room
    elseif v then
      local e = {}
      e.token, e.gen, e.account, e.first, e.last, e.due, e.attempt, e.delivery = struct.unpack(FIRED, v)
      local tail = string.find(v, '\0', 65, true)
      fire(ids[i], e, tail and string.sub(v, tail) or '')
    else -- never so, but it must not come up for ever
      unleased[#unleased + 1], gone[#gone + 1] = ids[i], ids[i]
    end
  end
end

-- regain delivers what was leased by calls of this caller whose replies never reached it: as it is, for a whole hold.
local function regain()
  if ARGV[11] == '' then return 0 end
  local calls = {}
  for i = 1, #ARGV[11], 6 do calls[string.sub(ARGV[11], i, i + 5)] = true end
  local all = redis.call('HGETALL', ev)
  for i = 1, #all, 2 do
    if calls[string.sub(all[i + 1], 59, 64)] then
      if #out / 2 >= limit then return 1 end
      leases[#leases + 1] = string.format('%.0f', now + hold)
      leases[#leases + 1] = all[i]
      had[all[i]] = true
      out[#out + 1] = all[i]
      out[#out + 1] = all[i + 1]
    end
  end
  return 0
end

-- candidates of the slices that have begun, by when they come up.
local function candidates(scan)
  local found = {}
  for _, code in ipairs(redis.call('ZRANGEBYSCORE', dir, '-inf', now, 'LIMIT', 0, HEADS)) do
    if #found >= scan and found[scan].at < begins(code) then break end
    if not declared[code] then break end -- the caller learns the oldest slices and asks again
    local list = redis.call('ZRANGEBYSCORE', declared[code], '-inf', now, 'WITHSCORES', 'LIMIT', 0, scan)
    for i = 1, #list, 2 do found[#found + 1] = {id = list[i], at = tonumber(list[i + 1]), code = code} end
    table.sort(found, function(a, b) return a.at < b.at end)
  end
  while #found > scan do found[#found] = nil end
  return found
end

-- comesUp fires one timer, or puts it back if it was touched. It returns false when there is no room for it.
local function comesUp(c, v, room)
  local t = v and decode(v)
  if not t or t.leased or t.at ~= c.at or slice(t) ~= c.code then -- never so, but it must not come up for ever
    into(dropped, c.code, c.id)
    return true
  end
  local d = due(t)
  if d > now then
    if have(place(t, d)) then
      early = early + 1
      move(c.id, t, c.code)
    end
    return true
  end
  if room == 0 then return false end
  fire(c.id, {
    token = ARGV[8] .. struct.pack('>I2', #out / 2), gen = t.gen, account = t.account, first = t.first, last = t.last,
    due = math.max(t.at, d), attempt = 0, delivery = 0,
  }, struct.pack('>I1I4I6I1', 0, t.pushed, t.at, t.coarse and 1 or 0))
  t.leased, t.touched = true, false
  put(c.id, t)
  into(dropped, c.code, c.id)
  return true
end

local function take()
  local behind = regain()
  again()
  local found = candidates(math.max(limit - #out / 2, SCAN))
  local ids = {}
  for i, c in ipairs(found) do ids[i] = c.id end
  local held = #ids > 0 and redis.call('HMGET', st, unpack(ids)) or {}
  for i, c in ipairs(found) do
    if not comesUp(c, held[i], limit - #out / 2) then break end
  end
  if #out > 0 or #gone > 0 or next(added) or next(dropped) then
    mark()
    commit()
  end
  return behind
end

-- comes is when the first of what remains comes up: exactly, where its slice is declared.
local function comes()
  local at, heads = -1, {}
  local function sooner(v) if v and (at < 0 or v < at) then at = v end end
  sooner(tonumber(redis.call('ZRANGE', inf, 0, 0, 'WITHSCORES')[2]))
  for i, code in ipairs(redis.call('ZRANGE', dir, 0, HEADS)) do
    heads[i] = code
    if declared[code] then
      sooner(tonumber(redis.call('ZRANGE', declared[code], 0, 0, 'WITHSCORES')[2]))
    else
      sooner(begins(code))
    end
  end
  return at, heads
end

local idle = ARGV[11] == '' and redis.call('ZCOUNT', inf, '-inf', now) == 0 and redis.call('ZCOUNT', dir, '-inf', now) == 0
if not idle or ARGV[10] == '1' then verify() end
if now > high + 10000 then mark() end -- so that a clock that jumps is noticed also where nothing happens
if lost() then limit = 0 end -- its owner is told first
local behind = idle and 0 or take()
local at, heads = comes()
return {epoch, now, stepped, at, needs, early, heads, out, behind}
