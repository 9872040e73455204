// Package memory is the timer queue of a single process.
//
// All timers are lost when the process ends; the owner then arms its timers again from its rows.
// While the process lives the queue loses nothing, so its epoch stays the same.
//
//	queue    64 shards by hash of the key, each with one RWMutex
//	  shard  table: open addressing, hash ─► entry          4 B a slot, at most 3/4 full
//	         slab:  entries of 72 B in chunks of 256        never moved, so an int32 identifies an entry
//	         heaps: one per kind, of int32, by plan.at      4 B
//	         leases: timers fired and not settled           only these need more memory
//
// A touch is a look-up under the read lock and one atomic write of entry.last; the heap does not
// change. Chunks are never freed: the queue keeps the memory of its greatest number of timers, less
// than 100 bytes each.
//
// Clock: the queue uses the monotonic clock. A step of the wall clock or a suspended machine
// affects no timer (T1). Ages stay the same, and returned times are converted to the new wall
// clock. Steps of more than a minute are reported (Options.OnClockStep). Suspended time counts for
// no timer: a suspended machine receives no activity either.
package memory
