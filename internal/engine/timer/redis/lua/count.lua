-- COUNT: counts a page of timers by the time until they are due (timer.Inspector.Pending). It writes nothing.
-- KEYS     1 meta, 2 st
-- ARGV[6]  cursor, at first 0
-- returns  {epoch, now, stepped, next cursor or 0, due within a minute, an hour, a day, later, leased}
local LEASED = 1
local page = redis.call('HSCAN', KEYS[2], ARGV[6], 'COUNT', 1000)
local sums = {0, 0, 0, 0, 0}
for i = 2, #page[2], 2 do
  local flags, _, _, idle, max, first, last, at = struct.unpack('>I1i8c16I6I6I6I6I6', page[2][i])
  local due = last + idle
  if max > 0 then due = math.min(due, first + max) end
  local wait, n = math.max(at, due) - now, 4
  if wait <= 60000 then n = 1 elseif wait <= 3600000 then n = 2 elseif wait <= 86400000 then n = 3 end
  if bit.band(flags, LEASED) ~= 0 then n = 5 end
  sums[n] = sums[n] + 1
end
return {epoch, now, stepped, page[1], unpack(sums)}
