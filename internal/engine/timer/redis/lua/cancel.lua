-- CANCEL: removes a timer and its lease if its gen is at most ARGV[7] (timer.Queue.Cancel).
-- KEYS     as in the index
-- ARGV[6]  id   ARGV[7]  gen
-- returns  {epoch, now, stepped, -1, slices to declare, {0} to send again}
local v = redis.call('HGET', st, ARGV[6])
if v then
  local t = decode(v)
  if t.gen <= tonumber(ARGV[7]) then
    if t.leased then
      unleased[1] = ARGV[6]
    elseif usable(slice(t)) then
      addTo(dropped, slice(t), ARGV[6])
    else
      return {epoch, now, stepped, -1, needs, {0}}
    end
    gone[1] = ARGV[6]
    mark()
    commit()
  end
end
return {epoch, now, stepped, -1, needs, {}}
