-- ANNOUNCE: announces an instance as alive and returns the live instances. It runs without the prelude.
-- KEYS     1 live: ZSET instance -> until, ms of TIME   2 layout: STRING
-- ARGV[1]  instance   [2] time until the announcement expires, ms; 0 = remove it   [3] layout used by the instance
-- returns  {stored layout, instance, instance, ...}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if tonumber(ARGV[2]) > 0 then
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
redis.call('SETNX', KEYS[2], ARGV[3])
return {redis.call('GET', KEYS[2]), unpack(redis.call('ZRANGE', KEYS[1], 0, -1))}
