-- HELLO: returns the epoch of a shard; a new one if the server was restarted or replaced.
-- KEYS     1 meta
-- returns  {epoch, now, stepped}
verify()
return {epoch, now, stepped}
