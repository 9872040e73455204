// Package files is what people do with what is in their drive: look, make folders, move, copy,
// trash, restore, go back to an older version, download, follow the changes.
//
// It composes package tree (nodes), content (references to blobs) and quota (the ledger) in single
// transactions, which keeps Q1 (finished is the sum of the sizes of all versions, trash included),
// Q4 (no growth beyond total) and B2 (a blob lives as long as it is referenced). Bringing content
// in is package upload's work.
//
// # Operations
//
// A purge or a copy of many nodes goes in batches, each one short transaction that also records how
// far it came. Up to Options.Direct nodes are done before the call returns; more become an
// operation that runs in the background: a row that survives a crash and is taken up again by
// Operations.Run, which may run twice at once or stop anywhere. Half of a copy is never visible,
// and half of a purge cannot be restored.
//
// # Types
//
//	doors       let callers in: who may do what at a node, and on whose account they act then
//	books       a transaction of an account, with its ledger and its references to contents
//	display     nodes as callers see them
//	sums        what lies below folders
//	register    the rows of operations
//	Operations  run a batch at a time of whatever an operation does:
//	            purging, emptying, copying, handingOver, each of them a work
//	Copies      copy, and move from one account to another
//	Handovers   give a whole drive to somebody else
//	Contents    open what files contain
//	Files       all else that people do with nodes
//
// Each is made of those above it. Expiry, FolderTags, Links, Marks and Shelf stand on Files;
// each has what only it needs.
//
// # Doing it again
//
// Trashing what is in the trash, restoring what is live, deleting what is gone (as long as its
// tombstone is kept) and going back to the version that is current change nothing and succeed.
package files
