// Package instance registers the processes that serve one installation, detects dead ones, and
// elects one process for work that only one may do.
//
// # Life cycle
//
// A process joins under the generation of its start and sends a heartbeat to the database every 5
// s. Without a heartbeat for 20 s, by the database's clock, the others consider it dead. It may
// come back unless it was ended meanwhile (by EndDead, or by a new start from the same data
// directory). An ended instance commits no more writes (FenceTx) and stops (Run returns ErrEnded).
//
//	joined ──heartbeat──► alive ◄──heartbeat──► silent for 20 s (dead, may come back)
//	                        │                       │
//	                        └───────► ended ◄───────┘    permanently
//
// # Leases
//
// A lease is valid as long as its instance is alive: one heartbeat renews all leases of an
// instance. An instance that cannot reach the database stops its leased jobs by itself, some
// seconds (margin) before others may take over. Its local deadline is the time at which it began
// the last successful heartbeat, plus 20 s, minus the margin. This covers a stalled process or
// network, but not a wrong clock. So correctness must never depend on a lease; a lease only saves
// duplicate work.
//
// Leases are not for locking rows. The shards of timers have their own leases in Redis.
package instance
