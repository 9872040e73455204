-- HELLO: which epoch a shard has; a new one if its server is not the one it was.
-- KEYS     1 meta
-- returns  {epoch, now, stepped}
verify()
return {epoch, now, stepped}
