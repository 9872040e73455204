// Package activity stores the activity log: who did what to which node, and other events of an
// account. Webhooks and pages show the same rows.
//
// # Terms
//
// An entry is one effect; its verb names it. A position is an entry's number within the
// installation. An event id is the position with a random part, which stays unique when a backup is
// restored and numbers are assigned again.
//
// # Invariants
//
// E1: the transaction of an effect inserts its entry (sqldb.Tx.InsertLate), so neither exists
// without the other. Each value of trees.seq above the first retained one has exactly one row:
// package tree reports every change of a node (RecordNode). E2: entries of one account commit in
// the order of their positions, because the caller of Record or RecordNode holds the lock on the
// account's ledger row. A reader that has passed a position has missed none before it. E3: only
// Purge and DeleteAccount delete rows.
//
// It is neither the change feed (package tree), from which a client learns the current state, nor
// the server's log. The package owns the table activity.
package activity
