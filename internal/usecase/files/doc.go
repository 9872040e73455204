// Package files implements the use cases on nodes: list, create folders, move, copy, trash,
// restore, version history, download and change feed.
//
// It composes packages tree (nodes), content (references to blobs) and quota (the ledger) in single
// transactions. This keeps three invariants: Q1 (finished is the sum of the sizes of all versions,
// trash included), Q4 (usage never grows beyond total) and B2 (a blob lives as long as it is
// referenced). Package upload brings content in.
//
// # Operations
//
// A purge or a copy of many nodes runs in batches. Each batch is one short transaction that also
// records the progress. Up to Options.Direct nodes are processed before the call returns.
// More nodes become an operation: a row that survives a crash and that Operations.Run continues in
// the background. Run may be called twice at once and may stop anywhere. A partial copy is never
// visible, and a partial purge cannot be restored.
//
// # Types
//
//	authorizer      checks what callers may do, and maps them to the account they act on
//	accounting      a transaction of an account with its ledger and blob references
//	presenter       builds the views of nodes that callers receive
//	folderSums      totals of what is below folders
//	operationStore  the rows of operations
//	Operations      runs operations batch by batch; a handler implements each kind:
//	                purgeHandler, emptyTrashHandler, copyHandler, handoverHandler
//	Copies          copies, and moves between accounts
//	Handovers       transfers a whole drive to another account
//	Contents        opens the content of files
//	Files           all other use cases on nodes
//
// Each type uses only types above it. Expiry, FolderTags, Links, DAVMetadata and QuickAccess are
// built on Files.
//
// # Idempotence
//
// Repeating these calls changes nothing and succeeds: trashing a node in the trash, restoring a
// live node, deleting a deleted node (as long as its tombstone is kept), and restoring the version
// that is current.
package files
