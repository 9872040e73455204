// Package redis is the timer queue that instances share: Redis 7 alone, behind Sentinel, or a
// Cluster.
//
// It may be emptied at any moment: it is not the truth. It then says so by a new epoch, and its
// owner arms again.
//
//	{smartdrive:t17}:meta            HASH  epoch, run id of the server, clock: high-water mark and shift     one a shard
//	{smartdrive:t17}:park:st         HASH  id ─► state, 55 bytes: all that is known, the slice included      one a shard and kind,
//	{smartdrive:t17}:park:m29384652  ZSET  id ─► comes up at: a slice of a minute; h489744: of an hour       and so the rest
//	{smartdrive:t17}:park:dir        ZSET  slice ─► its beginning: those that are not empty
//	{smartdrive:t17}:park:inf        ZSET  id ─► when it is delivered again: what is leased
//	{smartdrive:t17}:park:ev         HASH  id ─► the fired timer, frozen, with its token
//	{smartdrive:timers}:live         ZSET  instance ─► until when it counts as alive
//
// 64 shards by hash of the key, each under one hash tag, so that it lives on one server. Every
// change is one Lua script that declares all its keys; whoever calls it does not know in which
// slice a timer is, so it declares those that it guesses, and a script that needs another one
// leaves the timer alone and names the slice: the next call has it. docs/formats/redis.md has the
// bytes.
//
// A touch stores last and nothing else. Touches are gathered for a short window and sent pipelined;
// the index entry is a lower bound that is corrected when it comes up.
//
// Clock: TIME of the server, plus a shift, never below the high-water mark that the shard stores.
// Each call says what its caller reckons the clock to be; a server whose clock is more than a
// minute off that (a fail-over to one that is a day ahead) is taken for a server with a wrong
// clock: the shift makes up for it, so that all ages stay what they were and nothing fires early
// (T1), and Options.Stepped is told. A server that was restarted or replaced (another run id or
// replication id) may have lost the end of its log: that counts as a loss, and is found before
// anything fires.
//
// Shards are shared out among the instances that lease, by rendezvous hashing. Nothing depends on
// it: a lease is atomic.
package redis
