-- SHOW: returns the state of one timer (timer.Inspector.Show). It writes nothing.
-- KEYS     1 meta, 2 st, 3 inf, 4 ev
-- ARGV[6]  id
-- returns  {epoch, now, stepped, state or '', time of redelivery or -1, fired or ''}
return {
  epoch, now, stepped, redis.call('HGET', KEYS[2], ARGV[6]) or '',
  tonumber(redis.call('ZSCORE', KEYS[3], ARGV[6]) or -1), redis.call('HGET', KEYS[4], ARGV[6]) or '',
}
