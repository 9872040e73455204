// Package upload implements resumable, small-file and instant uploads, from begin to the finished
// file. Every protocol head calls Sessions.
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
// If the account already owns the content, begin links it and inserts the row in state done.
//
// Each transition is one compare-and-set on (id, state, gen) that increments gen, together with one
// ledger move in the same transaction: see updateRow. Transitions may race, be repeated, or be
// interrupted anywhere; one wins and the others change nothing. The row's reserved and held amounts
// are written by the transaction that charges them, and no other amounts are ever refunded.
//
// # Components
//
// Sessions is the only entry point. It also handles the timers and the transitions between active,
// parked and reclaiming. Every other component owns its fields:
//
//	liveTable, liveUpload  uploads cached in memory, and the locks on them within this process
//	receiver               stores parts: admits writers, handles staging errors, grows reservations
//	appender               fills an upload by offset: appends, tails, declared length; uses receiver
//	creator                creates uploads, or finds the open one that a request means
//	concatenator           creates final uploads from partial ones; merger copies their bytes in the seal
//	sealer                 completes uploads: starts, runs and awaits seals; prefixHasher hashes while parts arrive
//	smallFiles             whole files of at most one part: no row, no staging
//	committer              makes stored files visible; groups concurrent files of an account into one transaction
//	transitions            the transaction of a state change, and the staging calls around it
//	placer                 puts content into the tree
//	views                  describes uploads to clients
//	authorizer             checks who may begin or continue an upload
//	schedule               computes and arms timers; holdoff: suspends timer-driven reclaims
//
// Subpackages: claim (instant upload up to the link), combine (group commit) and disk (disk space
// promised to uploads).
//
// An attempt returns an outcome beside its error: finished, or retry if a concurrent change won.
// withRetry and withStateLock then run the attempt again. Errors never control a loop. errStale
// rolls back a transaction whose row has changed since it was read; it never leaves the function
// that ran the transaction. errBytesLost marks errors that prove the bytes missing.
//
// # Memory
//
// Each active upload has a liveUpload: the parts received, the requests that write, the bytes still
// expected. It caches the row and the journal, so that a part needs no database access (P5). Begin
// or the first request after a restart fills it. Losing it loses no data.
//
// If several instances share the staging, the cached state may be stale and decides nothing: see
// shared.go.
//
// Locks: the state lock of a liveUpload serializes state changes within this process. Correctness
// rests on the compare-and-set; the lock only saves failed attempts. liveUpload.mu guards the
// fields and is never held over I/O. locks.go documents the order of all locks.
//
// Invariants: Q1-Q5, P1-P5, B1-B3, T1-T3 of docs/invariants.md.
package upload
