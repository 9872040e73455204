-- LEASE: leases due timers, the oldest first, each under a token (timer.Queue.Lease).
-- KEYS     as in the index
-- ARGV[6]  limit   [7] hold, ms   [8] name of this call, 6 bytes   [9] holder   [10] '1' = verify the server even if no timer
-- is due
-- ARGV[11] names of earlier calls whose replies were lost
-- returns  {epoch, now, stepped, next index time or -1, slices to declare, early, oldest slices, {id, fired, ...},
--          1 if limit was too small for the timers leased by ARGV[11]}
--
-- Every entry is in the slice of its minute or hour. Of the slices that have begun, only those of the present minute and hour
-- can contain timers that are not due yet, so the HEADS oldest slices always contain the due ones.
local HEADS, SCAN = 6, 16
local limit, hold = tonumber(ARGV[6]), tonumber(ARGV[7])
local early, out, recovered = 0, {}, {}

-- fire leases a timer and adds it to the reply. more follows the holder's name: a zero byte, the push-backs, the index
-- position.
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

-- redeliver delivers expired leases again, unchanged and under the same token.
local function redeliver()
  local ids = redis.call('ZRANGEBYSCORE', inf, '-inf', now, 'LIMIT', 0, limit)
  if #ids == 0 then return end
  for i, v in ipairs(redis.call('HMGET', ev, unpack(ids))) do
    if recovered[ids[i]] or #out / 2 >= limit then
      -- already recovered by this call, or no room
    elseif v then
      local e = {}
      e.token, e.gen, e.account, e.first, e.last, e.due, e.attempt, e.delivery = struct.unpack(FIRED, v)
      local tail = string.find(v, '\0', 65, true)
      fire(ids[i], e, tail and string.sub(v, tail) or '')
    else -- must not happen; remove it, or it would be reached forever
      unleased[#unleased + 1], gone[#gone + 1] = ids[i], ids[i]
    end
  end
end

-- recoverLost delivers the timers leased by calls whose replies were lost again, unchanged, for a whole hold.
local function recoverLost()
  if ARGV[11] == '' then return 0 end
  local calls = {}
  for i = 1, #ARGV[11], 6 do calls[string.sub(ARGV[11], i, i + 5)] = true end
  local all = redis.call('HGETALL', ev)
  for i = 1, #all, 2 do
    if calls[string.sub(all[i + 1], 59, 64)] then
      if #out / 2 >= limit then return 1 end
      leases[#leases + 1] = string.format('%.0f', now + hold)
      leases[#leases + 1] = all[i]
      recovered[all[i]] = true
      out[#out + 1] = all[i]
      out[#out + 1] = all[i + 1]
    end
  end
  return 0
end

-- candidates returns the first entries of the slices that have begun, in order of index time.
local function candidates(scan)
  local found = {}
  for _, code in ipairs(redis.call('ZRANGEBYSCORE', dir, '-inf', now, 'LIMIT', 0, HEADS)) do
    if #found >= scan and found[scan].at < begins(code) then break end
    if not declared[code] then break end -- the reply names the oldest slices; the caller declares them and calls again
    local list = redis.call('ZRANGEBYSCORE', declared[code], '-inf', now, 'WITHSCORES', 'LIMIT', 0, scan)
    for i = 1, #list, 2 do found[#found + 1] = {id = list[i], at = tonumber(list[i + 1]), code = code} end
    table.sort(found, function(a, b) return a.at < b.at end)
  end
  while #found > scan do found[#found] = nil end
  return found
end

-- handle leases one timer if it is due, or moves its entry if it was touched. It returns false if there is no room to lease it.
local function handle(c, v, room)
  local t = v and decode(v)
  if not t or t.leased or t.at ~= c.at or slice(t) ~= c.code then -- must not happen; remove it, or it would be reached forever
    addTo(dropped, c.code, c.id)
    return true
  end
  local d = due(t)
  if d > now then
    if usable(place(t, d)) then
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
  storeState(c.id, t)
  addTo(dropped, c.code, c.id)
  return true
end

local function leaseDue()
  local behind = recoverLost()
  redeliver()
  local found = candidates(math.max(limit - #out / 2, SCAN))
  local ids = {}
  for i, c in ipairs(found) do ids[i] = c.id end
  local held = #ids > 0 and redis.call('HMGET', st, unpack(ids)) or {}
  for i, c in ipairs(found) do
    if not handle(c, held[i], limit - #out / 2) then break end
  end
  if #out > 0 or #gone > 0 or next(added) or next(dropped) then
    mark()
    commit()
  end
  return behind
end

-- nextTime returns the earliest index time of the remaining timers, exact for declared slices, and the oldest slices.
local function nextTime()
  local at, heads = -1, {}
  local function lower(v) if v and (at < 0 or v < at) then at = v end end
  lower(tonumber(redis.call('ZRANGE', inf, 0, 0, 'WITHSCORES')[2]))
  for i, code in ipairs(redis.call('ZRANGE', dir, 0, HEADS)) do
    heads[i] = code
    if declared[code] then
      lower(tonumber(redis.call('ZRANGE', declared[code], 0, 0, 'WITHSCORES')[2]))
    else
      lower(begins(code))
    end
  end
  return at, heads
end

local idle = ARGV[11] == '' and redis.call('ZCOUNT', inf, '-inf', now) == 0 and redis.call('ZCOUNT', dir, '-inf', now) == 0
if not idle or ARGV[10] == '1' then verify() end
if now > high + 10000 then mark() end -- so that a clock step is detected on an idle shard, too
if lost() then limit = 0 end -- the owner must learn of the loss first
local behind = idle and 0 or leaseDue()
local at, heads = nextTime()
return {epoch, now, stepped, at, needs, early, heads, out, behind}
