// Package memory is the timer queue of a single process.
//
// It forgets everything when the process ends: the owner arms its timers again from its rows, which
// are the truth. While the process lives it loses nothing, so its epoch does not change.
//
//	queue    64 shards by hash of the key, each with one RWMutex
//	  shard  table: open addressing, hash ─► entry          4 B a slot, at most 3/4 full
//	         slab:  entries of 72 B in chunks of 256        never moved, so an entry is named by an int32
//	         heaps: one per kind, of int32, by plan.at      4 B
//	         leases: what is fired and not settled          only these hold more
//
// A touch is a look-up under the shared lock and one atomic write of entry.last; the heap is not
// moved. Chunks are kept when their timers are gone: the queue holds the memory of the most timers
// that it ever had, under 100 bytes each.
//
// Clock: the queue counts by the monotonic clock. A step of the wall clock, or a machine that
// slept, has no effect on any timer (T1): ages are kept, and the times that come out are those of
// the stepped clock. Steps of over a minute are reported (Options.Stepped). Asleep, a machine
// receives no activity either, so that time counts for nobody.
package memory
