// Package bulk does to many nodes what one request asks for: trash, restore, delete for good, move,
// copy; and it ends many shares. It lists what failed, tries it again, and undoes what it did.
//
// It composes package files, item by item, and changes nothing that files would not change: quota,
// names, cycles and limits are decided there.
//
// # Words
//
// An operation is a row of bulks. Its items are ids, in pieces of up to 200, rows of bulk_items.
// Beside the ids of a piece stands its record: what became of each item, and how the item was
// before. A child is an operation of package files that works on one item which is more than a
// batch: a folder that is copied or deleted.
//
//	    Create, Undo
//	        │                       Retry (what waits and what failed)
//	        ▼            ┌──────────────────────────────┐
//	     running ────────┴─► done                       │
//	        │  ▲                                        │
//	Cancel  │  └────────────────────────────────────────┘
//	        ▼
//	     cancelled     as soon as the item in the middle is through
//
// # Work
//
// Run does up to a slice of short transactions and says whether there is more. Each begins with the
// lock on the account's ledger, reads how far the operation is, does the next items, and writes
// their records and the new place in the same commit. So an item is done once, whatever dies in
// between, however often Run is called, and by however many instances at once: who comes second
// reads the place that the first one left. The write compares the place that was read, so that a
// mistake in this is an error and no second effect.
//
// The operations of an account go one after the other, the oldest first: an undo sees what it
// undoes at its end. Accounts take turns, a slice each.
//
// An item that is in the state that is wanted already counts as done. One that is refused is a
// failure of that item and of no other. What fails for another reason, such as a database that is
// away, stops the slice, and the timer tries again; where it is one item that fails again and
// again, that item is a failure, so that it does not keep the others from their turn.
//
// # Undo
//
// The inverse is made from the records: what was trashed is restored, what was moved goes back,
// what was restored is trashed, and copies are trashed. Only what the operation itself has changed
// is touched, the last item first, and only while it still is as the operation left it; what
// somebody has changed since is a failure with the code version-changed.
package bulk
