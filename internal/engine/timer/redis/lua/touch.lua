-- TOUCH: records activity now (timer.Queue.Touch). The index does not change.
-- KEYS     1 meta, 2 st
-- ARGV[6...]  ids; no id twice
-- returns  {epoch, now, stepped, number of existing timers that were updated}
local LEASED, TOUCHED = 1, 2
local ids = {unpack(ARGV, 6)}
local held, out = redis.call('HMGET', KEYS[2], unpack(ids)), {}
local stamp = struct.pack('>I6', now)
for i, v in ipairs(held) do
  if v then
    local flags = string.byte(v)
    -- last is at bytes 44 to 49 of the state
    local last = struct.unpack('>I6', v, 44)
    local fresh = bit.band(flags, LEASED) ~= 0 and bit.band(flags, TOUCHED) == 0
    if last < now or fresh then
      if fresh then flags = flags + TOUCHED end
      out[#out + 1] = ids[i]
      local stays, pushed = string.sub(v, 50, 55), #v > 56 and struct.unpack('>I4', v, 56) or 0
      if last < now then pushed = math.min(pushed + 1, 4294967295) end
      out[#out + 1] = string.char(flags) .. string.sub(v, 2, 43) .. (last < now and stamp or string.sub(v, 44, 49)) .. stays ..
        (pushed > 0 and struct.pack('>I4', pushed) or '')
    end
  end
end
if #out > 0 then
  mark()
  redis.call('HSET', KEYS[2], unpack(out))
end
return {epoch, now, stepped, #out / 2}
