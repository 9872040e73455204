// Package tree keeps the nodes of an account: folders and files, the versions of files, the trash,
// and the feed of changes.
//
// It is not the owner of content or of the ledger: it takes blob ids and sizes and hands back the
// versions that it dropped, so that the use case releases content and moves the ledger in the same
// transaction (Q1: finished is the sum of the sizes of the versions, trash included).
//
// # Words
//
// A node keeps its id for life. Its slot is its name while it is live, and a value of its own once
// it is trashed: one live name per folder. Only the top of what was trashed carries the mark; what
// lies below is not live because of it. rev grows with every change of the node (If-Match), seq is
// the tree's counter of changes, written on the node by the transaction of the change. What is
// deleted for good leaves a tombstone.
//
// # Order
//
// Every change takes the account's row in trees first (lock order: tree, folder, node): two moves
// that would make a cycle together run one after the other, and the second one sees the first.
//
// # Limits
//
// Depth and length of paths are checked when a node is placed. For a moved folder the height of
// what is below is read before the transaction, so two changes at the same moment may exceed the
// limits a little; nothing depends on them but PathOf, which looks up to maxClimb levels.
package tree
