// Package migrate moves an installation to another database while it serves.
//
// It is not for changing the schema (that is sqldb's), and it knows no table by name but its own:
// what it moves it reads from the schema of both sides. The bytes of contents are moved by others
// (Contents), in the same phases.
//
// # Words
//
// A side is a database. One is the primary: the truth, to which everything is written. The other is
// the secondary and follows. A change is a row of migration_changes, written by a trigger in the
// transaction that changed a row: the record of what the secondary has to be brought yet (of
// compensation, where the second write failed). To apply it is to read what the row is now and to
// write that.
//
//	phase   writes                     reads
//	0       old                        old                     preflight; triggers are being made
//	1       old                        old                     rows are filled in, changes follow in the background
//	2       old first, then new        old
//	3       old first, then new        new, for N % of accounts
//	4       new first, then old        new
//	5       new                        new                     old refuses every write
//
// # Parts
//
//	Migration    the steps of administrators, and the way in for everybody else
//	both         the two sides, and what this process knows of where the move stands
//	traffic      what the handle of the database goes through while something moves
//	participant  what a process does while something moves
//	announcer    tells the others which epoch this process acts by
//	switcher     makes the other side the primary
//	inspector    what a move would meet, before it begins
//	leftSide     the old side once it is left: kept, then dropped
//	applier      brings changes, and counts what the secondary has acknowledged
//	filler       brings the rows that were there before
//	matcher      compares both sides row by row; comparator, answers to readers
//	gatekeeper   what must hold before a step
//
// # Invariants
//
// M1: at most one side is primary, at any moment and wherever a process dies. A transaction holds the row of migration_side for
// reading before its first statement; a switch fences the old side by changing that row, which
// waits for those transactions.
//
// M2: a change that was committed is in migration_changes or has been applied. M3: the secondary never goes back: a row is written
// only with a version above the one that it has, or with the same once more, and deleted rows keep
// theirs. M4: a read goes to the secondary only when nothing of its account is left to apply. M5: a
// phase counts only when every instance that is alive acts by it, and is left for the one before
// only when every one has heard of it.
//
// # The switch
//
//	old primary, new secondary                      careful: nobody reads without asking the primary's row
//	old fenced (epoch+1)                            nobody is primary; writes wait; what is left is applied
//	new primary (epoch+1, compare-and-set)          the point of no return: undoing changes the same row first, but for
//	                                                who fenced and has not sent this: it takes the old side's fence back
//	old secondary (epoch+1)
package migrate
