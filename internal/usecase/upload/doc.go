// Package upload takes files in: begin, parts, park, resume, seal, reclaim, and the instant upload.
// Every protocol head stands on Sessions.
//
// # Life of an upload
//
//	        begin: reserve declared            parts ...               complete
//	(none) ─────────────────────────► active ─────────────────────────────────► sealing ──► done
//	                                   │  ▲ └─ claim hits: done                   │
//	          quiet for idle:          │  │ a part comes: reserve again           └─ digest wrong, name taken, parent gone:
//	          reserved -= declared     ▼  │                                          active again, parts kept
//	          unfinished += held      parked ──────────────────────────────────► sealing
//	                                   │ quiet for abandon        from active or parked: cancelled, or too old
//	                                   ▼
//	                               reclaiming ──► gone: bytes deleted, unfinished -= held
//
// Content that the account owns already is linked by begin: its row is done from the beginning.
//
// Every arrow is one compare-and-set on (id, state, gen) with gen+1 and one move in the ledger, in
// one transaction: see change. Arrows may race, repeat, or stop anywhere; one wins and the others
// find nothing to do. The row's reserved and held are the only amounts ever refunded, written by
// the transaction that charged them.
//
// # Rooms
//
// Sessions is the one way in, and is the timers and the arrows between active, parked and
// reclaiming. Each of the others owns its fields, and its struct says what it needs:
//
//	live, table   what is known of an upload in memory; who may do what to it in this process
//	receiver      takes parts in: who may write one, what the staging says, room for unknown lengths
//	filler        fills an upload by offset: appending, tails, the declared length; on receiver
//	beginner      makes uploads, or finds them
//	concats       makes final uploads of partial ones; joins copies their bytes in the seal
//	sealer        completes: begins seals, runs them, waits for them; follower hashes while parts come
//	smallFiles    whole files of one part: no row, no staging
//	committer     makes them visible, those of an account that come together in one transaction
//	arrows        what all changes of state have in common
//	placer        makes content visible in the tree
//	views         shows uploads
//	schedule      when an upload is looked at next; holdoff: when no timer may start a reclaim
//
// Packages beside it: claim (the instant upload up to the link), combine (work that is done
// together by those who would wait for one another) and disk (what the disk has promised).
//
// What an attempt came to is a value beside its error: an outcome, which is settled, or again when
// somebody else was first; attempts and inTurn make another attempt then. No error steers a loop.
// errLost rolls a transaction back whose row has moved on, which takes an error, and leaves no
// transaction; errBytesLost marks what only the staging may say.
//
// # What lives in memory
//
// An active upload has a live: the parts that have arrived, the requests that write, what is
// outstanding. It is a cache of the row and the journal, made by begin or by the first request
// after a restart, so that a part needs no database access (P5). Losing it loses nothing.
//
// Where several instances share the staging, a live is a guess, and nothing is decided by it: see
// shared.go.
//
// Locks: a live's turn serialises changes of state within this process (correctness does not need
// it, the compare-and-set decides; it saves failed attempts); a live's mu guards its fields and is
// never held over I/O. The order of all locks stands in locks.go.
//
// Invariants: Q1-Q5, P1-P5, B1-B3, T1-T3 of docs/invariants.md.
package upload
