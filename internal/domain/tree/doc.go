// Package tree stores the nodes of an account: folders and files, the versions of files, the trash,
// and the change feed.
//
// It owns neither content nor the ledger. It takes blob ids and sizes, and returns the versions it
// dropped, so that the caller releases their content and updates the ledger in the same transaction
// (Q1: finished is the sum of the sizes of the versions, trash included).
//
// # Terms
//
// A node keeps its id for life. Its slot is its name while it is live and a unique value once it is
// trashed; a unique index on (parent, slot) allows one live node per name. Only the top of a
// trashed subtree has a trash time; its descendants are not live because of it. rev grows with
// every change of the node (If-Match). seq is the tree's change counter; each change stores the
// next value on the node. A permanently deleted node leaves a tombstone.
//
// # Lock order
//
// Every change first locks the account's row in trees (lock order: tree, folder, node). Two moves
// that would together create a cycle run one after the other, and the second one sees the first.
//
// # Limits
//
// Depth and path length are checked when a node is placed. The extent of a moved folder is read
// before the transaction, so concurrent changes may exceed the limits slightly. Only PathOf depends
// on them, and it reads up to maxLevels levels.
package tree
