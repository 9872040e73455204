// Package contents moves the contents of an installation to another place during a migration, in
// the phases of package migrate, while the installation serves.
//
// # The pair
//
// A Pair presents two places as one: all reads, writes and uploads use the pair. It usually has
// only one side, and then costs one stack frame and one atomic load per operation.
//
// One side is the leader: new contents and new uploads are stored there. The other is the follower.
// A content keeps its name when it is copied, so no row changes.
//
//	Put, Create       at the leader
//	Open, Stat        at the leader, then at the follower (SetReadPercent selects a share of contents that is read at the follower first)
//	Remove            at both, the follower last; see Sync
//	staged uploads    at the side where they began, until they end; only asking both sides tells which one that is
//	List, Quarantine  both; a content that is on both sides is listed twice
//
// Lead switches the leader with one atomic store: a running Put ends at the side where it began,
// and Sync copies the content in either direction. After DropFirst, the first side is not changed
// any more. The pair makes no decisions and keeps no essential state: package migrate decides, and
// rows hold the state.
//
// # Two kinds of staging
//
// A staging shared by several instances behaves differently from one of a single process
// (blob/caps.go), and package upload selects its behavior at start. So the pair reports the kind of
// its first side, and wraps the second side to behave alike: stagingcaps.go.
//
// # The copier
//
// A Copier copies to each side what it lacks. All its state is in rows:
//
//	sweep     all rows of blobs by id, from a save point on: each content is copied to the side that lacks it
//	queue     the table copies, filled by triggers on blobs in the transaction that changes a row, while contents move
//
// A sweep that began after the triggers were created, and has ended, proves together with an empty
// queue that each side has all contents. The triggers are created on the primary. After a switch of
// the primary they are created there, and a new sweep begins, which finds contents stored between
// the two steps. Each switch starts a new term, and a sweep belongs to one term, so a sweep from
// before a switch never counts after it.
//
// A content that cannot be copied blocks no other: it stays in the queue, and the sweep counts it
// as bad after some tries between which both sides answered. If a side does not answer, the page of
// the sweep is retried.
//
//	crash after ...            then
//	triggers created           they exist; the sweep begins
//	content copied             found there
//	save point, row of copies  at most one page is done again, which takes about a second
//	probe stored               a stray for "admin fsck"
//
// One process copies at a time, under a lease; two would only do some work twice.
package contents
