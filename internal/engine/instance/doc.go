// Package instance knows the processes that serve an installation together: who is alive, and who
// does what only one does.
//
// # Life
//
// A process joins with the generation of its start, tells the database every 5 s that it lives, and
// is dead for the others after 20 s without that, by the database's clock. It then may come back,
// unless somebody has ended it meanwhile (End, or a new start from the same data directory): an
// instance that was ended writes nothing more (Hold) and stops (Run returns ErrEnded).
//
//	joined ──heartbeat──► alive ◄──heartbeat──► silent for 20 s (dead, may come back)
//	                        │                       │
//	                        └───────► ended ◄───────┘    for good
//
// # Leases
//
// A lease is held by an instance, and is as good as that instance is alive: one heartbeat keeps all
// of them. An instance that cannot reach the database stops what it does under a lease by itself, a
// margin before the others may take it over: its local deadline is the moment before its last good
// heartbeat was sent, plus the 20 s, minus the margin. That covers a stall of the process and of
// the network, not of a clock; so correctness never rests on a lease (STYLE), it only saves work.
//
// It is not for locking rows, and not for the shards of timers, which have their own leases in
// Redis.
package instance
