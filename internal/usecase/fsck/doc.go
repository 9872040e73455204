// Package fsck finds violations of invariants and repairs those that it can explain. It runs within
// a budget in the background (the auditor), or to the end for an administrator (fsck). Both run the
// same checks:
//
//	pages     S1        a SQLite file has intact pages; if not, nothing else is checked or repaired
//	ledger    Q1 Q2 Q3  balances are the sums of versions and uploads; uploads in other states are not charged
//	owed      Q6        the debt of an account is the sum of its released files
//	link      C1        the totals of a collect link are the sums of its files
//	grants    A1        a grant has the account of its node
//	marks     N6        WebDAV locks and properties have the account of their node; a number has a node
//	activity  E1        the activity log ends with the last change of each tree
//	notices   E4        recipients of notifications exist, and notifications waiting for mail have an address
//	wishes    E4        users with notification settings exist
//	refs      B2        the reference count of a blob is the number of its versions; versions have a blob of their size
//	tree      N1 N2 N3  one root, every node below it, current versions their own; the counts of nodes and old versions
//	sums      N7        a folder's sum is the sum of its children
//	bundle    K2 K5 K6  a bundle ends, and its counts match its members and records; records name documents
//	document  K3 K6     a document matches its bundle, records, files and conflicts
//	open      P1 P4     an open upload has its staging and its timers
//	staged    P4 B3     a staged directory has an open row
//	contents  P1 B3     a blob's file exists with its size; a content file belongs to an open upload, a blob, or a released row
//	deep      B1        a blob's bytes have its digest
//
// Checks of the database come first, checks of the store last. A background pass writes save points
// to the database and resumes after a restart or in another instance (resume.go).
//
// The checks run in the serving process without locks. Three rules make that safe:
//
//   - Compared values are read in one statement, a snapshot of the database. A file and a row are read in an order in which no
//     concurrent change can look like a violation (each check explains why).
//   - A repair of rows is one transaction that verifies the defect again before it changes anything.
//   - A suspicion from two separate reads is checked again a little later before it counts. No repair relies on this; it only
//     prevents reports of transient states, such as a seal between its transaction and its cleanup.
//
// B3: no repair deletes bytes that it cannot explain. It deletes only the staging of uploads that
// have ended by their row, an empty staging whose process died, and files of whole-file uploads of
// an earlier process. Everything else moves to the quarantine and leaves it only by
// PurgeQuarantine. After a backup was restored nothing is deleted, because the rows are older than
// the files.
package fsck
