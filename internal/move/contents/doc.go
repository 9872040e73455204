// Package contents brings the bytes of an installation to another place, in the phases of package
// migrate, while everybody goes on using them.
//
// # The pair
//
// A Pair is one place for bytes over two: everybody reads, writes and stages through it and nobody
// knows that there are two. It is over one side most of the time, and costs one frame and the load
// of a pointer then.
//
// One side leads: new content and new uploads go there. Content keeps its name on its way, so that
// no row changes.
//
//	Put, Create       at the side that leads
//	Open, Stat        at the side that leads, else at the other (Read moves a share of contents to the follower first)
//	Remove            at both; the follower last, see Sync
//	staged uploads    at the side where they began, until they end; nothing but asking both tells which one that is
//	List, Quarantine  both; what lies at both is listed twice
//
// What leads changes with one store of a pointer (Lead): a Put that runs meanwhile ends where it
// began, and Sync copies it whichever way it has to go. Once the first side was left (Leave), it
// stays as it was. The pair decides nothing by itself, and remembers nothing that matters: package
// migrate says when, rows say what.
//
// # Two kinds of staging
//
// A staging that several instances share differs from one of this process alone (blob/caps.go), and
// package upload goes by one of them for as long as it runs. So the pair shows the kind that its
// first side has, and makes the second one look like it: alike.go.
//
// # The copier
//
// A Copier brings each side what it lacks. It is driven by rows, never by memory:
//
//	sweep     all rows of blobs, by id, from a save point on: each is brought to the side that lacks it
//	queue     the table copies, which triggers on blobs fill in the transaction that makes or changes a row, while contents move
//
// A sweep that began after the triggers were made, and came to its end, proves together with an
// empty queue that each side has everything. The triggers are made on whichever database is the
// primary. When that changes they are made there, and a new sweep begins: what was stored between
// the two is found by it. Each switch is a term of its own, and a sweep is of one term, so that
// none that ended before a switch counts after it, forward or back.
//
// One content that cannot be brought stops no other: in the queue it waits on, and the sweep counts
// it as bad after some tries, between which both sides answered. Where they do not, the page of the
// sweep is done again until they do.
//
//	dies after ...             and then
//	triggers made              made already; the sweep begins
//	content copied             found there
//	save point, row of copies  done again for a page at most, which takes about a second
//	probe put                  a stray for "admin fsck"
//
// One process does it at a time, under a lease; two would only do some of the work twice.
package contents
