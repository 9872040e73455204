// Package redis is a timer queue that instances share: Redis 7 alone, behind Sentinel, or a
// Cluster.
//
// Redis may lose all timers at any moment; it is not the source of truth. The queue then reports a
// new epoch, and the owner arms its timers again.
//
//	{smartdrive:t17}:meta            HASH  epoch, run id of the server, clock: high-water mark and shift     one per shard
//	{smartdrive:t17}:park:st         HASH  id ─► state, 55 bytes: the whole timer, including its slice       one per shard and kind,
//	{smartdrive:t17}:park:m29384652  ZSET  id ─► index time: slice of one minute; h489744: of one hour       also the keys below
//	{smartdrive:t17}:park:dir        ZSET  slice ─► its first ms: the slices that are not empty
//	{smartdrive:t17}:park:inf        ZSET  id ─► time of redelivery: the leased timers
//	{smartdrive:t17}:park:ev         HASH  id ─► the timer as it fired, with its token
//	{smartdrive:timers}:live         ZSET  instance ─► time until which it counts as alive
//
// The timers are spread over 64 shards by hash of the key. All keys of a shard have one hash tag,
// and so are on one server. Every change is one Lua script that declares all its keys. The caller
// does not know the slice of a timer and declares the probable ones. If a script needs another
// slice, it leaves the timer unchanged and returns the slice's name for the next call.
// docs/formats/redis.md describes the bytes.
//
// A touch only stores last. Touches are collected for a short window and sent in one pipeline. The
// index entry is a lower bound of the due time and is corrected when it is reached.
//
// Clock: TIME of the server plus a shift, never below the high-water mark that the shard stores.
// Each call sends the time that the caller expects. If a server's clock is more than a minute off
// (a fail-over to a server that is a day ahead), the script corrects the shift. All ages then stay
// the same, nothing fires early (T1), and Options.OnClockStep is called. A restarted or replaced
// server (another run id or replication id) may have lost the end of its log. The scripts treat
// this as a loss and detect it before they deliver a timer.
//
// The instances that lease divide the shards by rendezvous hashing. Correctness does not depend on
// the division: a lease is atomic.
package redis
