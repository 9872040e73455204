// Package fsck finds what breaks an invariant, and repairs what it can explain: with a budget in
// the background (the auditor), or to the end when an administrator asks (fsck). Both are one pass
// through the same checks:
//
//	pages     S1        a SQLite file is as SQLite has written it; if it is not, nothing else is checked and nothing is repaired
//	ledger    Q1 Q2 Q3  balances are the sums of versions and uploads; uploads in other states hold nothing
//	owed      Q6        what an account owes is the sum of the released files that it let go
//	link      C1        what has come by a collect link is the sum of its files
//	grants    A1        a grant has the account of its node
//	marks     N6        locks and properties of WebDAV have the account of their node; a number has a node
//	activity  E1        the activity log ends with the last change of each tree
//	notices   E4        whoever is told something is there, and what waits to be mailed has somewhere to go
//	wishes    E4        whoever has said how to be told is there
//	refs      B2        a blob's references are its versions; versions have a blob of their size
//	tree      N1 N2 N3  one root, every node below it, current versions their own; the counts of nodes and old versions
//	sums      N7        a folder's sum is that of what is below it
//	bundle    K2 K5 K6  a bundle ends, and counts what its members and records say; records name documents
//	document  K3 K6     a document fits its bundle, its records, its files and its conflicts
//	open      P1 P4     an open upload has its staging and its timers
//	staged    P4 B3     a staged directory has an open row
//	contents  P1 B3     the bytes of a blob are there, with its size; a content file is an open upload's, a blob's, or released
//	deep      B1        a blob's bytes have its digest
//
// What the database alone tells comes first, what the store must be asked for last. A pass in the
// background has a save point in the database, and goes on after a restart or at another instance
// (resume.go).
//
// It works beside a running server, in the same process, without locks. Three rules make that safe:
//
//   - What is compared is read in one statement, which is one moment of the database; where a file and a row are compared, they
//     are read in the order in which nobody can change them from explained to unexplained in between (each check says why).
//   - A repair of rows is one transaction that finds the defect again before it changes anything.
//   - What was seen in two steps is looked at once more a little later, before it counts. No repair relies on that; it keeps
//     states that last a moment, such as a seal between its transaction and its cleaning up, from being reported.
//
// B3: no repair deletes bytes that it cannot explain. Deleted are the staging of uploads whose row
// says that they have ended, an empty staging whose begin died with its process, and what a
// whole-file request of an earlier process left. Everything else moves to the quarantine, and
// leaves it only by PurgeQuarantine. After a backup was restored nothing at all is deleted, for the
// rows are older than the bytes.
package fsck
