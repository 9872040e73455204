-- SETTLE: ends leases, each on its own, if the token is that of the present lease (timer.Queue.Settle).
-- KEYS     as in the index
-- ARGV[6...]  each id(16) token(8) verdict(1: 1 done, 2 retry, 3 snooze) in(6, ms) attempt(4); no id twice
-- returns  {epoch, now, stepped, earliest index time of the remaining or -1, slices to declare, numbers of the outcomes to send
-- again}
local DONE, RETRY = 1, 2
local first, left = -1, {}
mark()

local function noteNext(at) if first < 0 or at < first then first = at end end

-- makePending makes a leased timer pending with index time at.
local function makePending(i, id, t, at)
  t.leased, t.touched = false, false
  if not usable(place(t, at)) then
    left[#left + 1] = i
    return
  end
  noteNext(at)
  unleased[#unleased + 1] = id
  move(id, t)
end

local function settle(i, blob, e, v)
  local id, token, verdict, pause, attempt = struct.unpack('>c16c8I1I6I4', blob)
  if not e or not v or string.sub(e, 1, 8) ~= token then
    -- settled before, possibly by this call, whose reply was lost: report the timer's index time again
    local t = v and decode(v)
    if t and not t.leased then noteNext(t.at) end
    return
  end
  if verdict == RETRY then
    -- attempt is in bytes 51 to 54 of the fired timer
    events[#events + 1] = id
    events[#events + 1] = string.sub(e, 1, 50) .. struct.pack('>I4', attempt) .. string.sub(e, 55)
    leases[#leases + 1] = string.format('%.0f', now + pause)
    leases[#leases + 1] = id
    return noteNext(now + pause)
  end
  if verdict ~= DONE then return makePending(i, id, decode(v), now + pause) end
  if bit.band(string.byte(v), TOUCHED) ~= 0 then
    local t = decode(v)
    t.first = t.last
    return makePending(i, id, t, due(t))
  end
  unleased[#unleased + 1] = id
  gone[#gone + 1] = id
end

local ids = {}
for i = 6, #ARGV do ids[i - 5] = string.sub(ARGV[i], 1, 16) end
local fired, held = redis.call('HMGET', ev, unpack(ids)), redis.call('HMGET', st, unpack(ids))
for i = 6, #ARGV do settle(i - 6, ARGV[i], fired[i - 5], held[i - 5]) end
commit()
return {epoch, now, stepped, first, needs, left}
