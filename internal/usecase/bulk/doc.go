// Package bulk applies one request to many nodes: trash, restore, delete for good, move, copy; and
// it ends many shares. It lists failed items, retries them, and undoes operations.
//
// It calls package files item by item, which decides about quota, names, cycles and limits.
//
// # Terms
//
// An operation is a row of bulks. Its items are ids, stored in pieces of up to 200: rows of
// bulk_items. A piece also stores its record: the result of each item, and the item's earlier
// state. A child is an operation of package files for one item that is too large for a batch: a
// folder that is copied or deleted.
//
//	    Create, Undo
//	        │                       Retry (waiting and failed items)
//	        ▼            ┌──────────────────────────────┐
//	     running ────────┴─► done                       │
//	        │  ▲                                        │
//	Cancel  │  └────────────────────────────────────────┘
//	        ▼
//	     cancelled     once the current item has ended
//
// # Execution
//
// Run executes up to TransactionsPerRun short transactions and reports whether more remain. Each
// locks the account's ledger, reads the operation's position, executes the next items, and commits
// their records together with the new position. So each item is done once, despite crashes,
// repeated calls of Run, and several instances: a later caller reads the position that the earlier
// one committed. The update compares the position that was read, so that a bug here causes an error
// and no second effect.
//
// The operations of an account run one after the other, oldest first, so that an undo sees the
// result of what it undoes. Accounts take turns, one slice each.
//
// An item that already is in the wanted state counts as done. A refused item is a failure of that
// item alone. Other errors, such as an unavailable database, stop the slice, and a timer retries.
// An item that fails repeatedly is recorded as a failure, so that it does not block the others.
//
// # Undo
//
// Undo builds the inverse operation from the records: it restores what was trashed, moves back what
// was moved, and trashes what was restored or copied. It touches only what the operation itself has
// changed, in reverse order, and only if the item is still as the operation left it; otherwise the
// item fails with version-changed.
package bulk
