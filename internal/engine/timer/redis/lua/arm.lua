-- ARM: arms timers, each on its own (timer.Queue.Arm).
-- KEYS     as in the index
-- ARGV[6...]  each id(16) gen(8) account(16) idle(6) max(6) age of last(6) age of first(6), in ms; no id twice
-- returns  {epoch, now, stepped, earliest index time of them or -1, slices to declare, numbers of the entries to send again}
local first, left = -1, {}
mark()

local function arm(i, blob, v)
  local n, id, age, begun = {}, nil, nil, nil
  id, n.gen, n.account, n.idle, n.max, age, begun = struct.unpack('>c16i8c16I6I6I6I6', blob)
  n.last, n.first, n.pushed = math.max(now - age, 0), math.max(now - begun, 0), 0
  local was, pending = nil, false
  if v then
    local held = decode(v)
    if n.gen < held.gen then return end
    pending = not held.leased
    if pending then was = slice(held) end
    if pending and n.gen == held.gen then
      n.first, n.last, n.pushed = math.min(n.first, held.first), math.max(n.last, held.last), held.pushed
      place(n, math.min(held.at, due(n)))
    else
      place(n, due(n))
    end
  else
    place(n, due(n))
  end
  local code = slice(n)
  -- check both, so that one more call is enough
  local there, here = usable(code), not was or usable(was)
  if not (there and here) then
    left[#left + 1] = i
    return
  end
  if v and not pending then unleased[#unleased + 1] = id end
  if first < 0 or n.at < first then first = n.at end
  move(id, n, was)
end

local ids = {}
for i = 6, #ARGV do ids[i - 5] = string.sub(ARGV[i], 1, 16) end
local held = redis.call('HMGET', st, unpack(ids))
for i = 6, #ARGV do arm(i - 6, ARGV[i], held[i - 5]) end
commit()
return {epoch, now, stepped, first, needs, left}
