// Package migrate moves an installation to another database while it serves.
//
// Schema changes are the task of sqldb. This package knows no tables but its own: it reads the
// schema of both sides. The bytes of contents are moved by Contents, in the same phases.
//
// # Words
//
// A **side** is a database. The **primary** receives all writes. The **secondary** follows it. A
// **change** is a row of migration_changes, written by a trigger in the transaction that changed a
// row: a write-ahead record of what the secondary lacks. To **apply** a change means to read the
// current state of its row and to write it to the secondary. The **home** side is the one in the
// settings of this process. The **term** counts the switches of the primary; the **epoch** counts
// all steps.
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
//	Migration    the steps of administrators, and the facade of the package
//	sides        the two sides, and what this process knows of the migration
//	router       routes the queries of the database handle during a migration
//	participant  follows the phases in this process
//	announcer    publishes which epoch this process acts by
//	switcher     makes the other side the primary
//	inspector    checks both sides before a migration begins
//	oldSide      keeps and drops the old side in phase 5
//	applier      applies changes, and counts what the secondary has acknowledged
//	filler       copies the rows that existed before the triggers
//	matcher      compares both sides row by row; comparator compares answers to queries
//	gatekeeper   checks the conditions of a step
//
// # Invariants
//
// M1: at most one side is primary, at any time and after any crash. A transaction locks the row of
// migration_side for reading before its first statement; a switch fences the old side by changing
// that row, which waits for these transactions.
//
// M2: a committed change is in migration_changes or has been applied. M3: the secondary never goes
// back: a row is written only with a version at least as new as its current one, and deleted rows
// keep their version. M4: a read uses the secondary only if no change of its account is pending.
// M5: a phase takes effect only when each live instance acts by it, and is left for the previous
// one only when each instance has heard of it.
//
// # The switch
//
//	old primary, new secondary                      careful: each read first asks the primary's row
//	old fenced (epoch+1)                            no primary; writes wait; pending changes are applied
//	new primary (epoch+1, compare-and-set)          the point of no return: to undo the switch, other processes change this row first;
//	                                                a process that fenced and has not sent this statement restores the old side alone
//	old secondary (epoch+1)
package migrate
