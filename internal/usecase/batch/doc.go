// Package batch executes many items of one request: it creates folders, stores small files, moves,
// trashes, and links content that the account owns, one item after the other.
//
//	items ──► read: file bytes are stored (PutUnsynced) as they arrive
//	             │
//	             ▼        items that arrive without a pause while the previous group commits
//	          group ──► one round of syncs ──► one transaction ──► answers, in order
//
// Each item succeeds or fails alone, with the result that it would have alone, and sees the effects
// of the items before it. The next group collects items while a group is made durable, so the group
// size follows the client's speed. An item waits at most 2 ms for the next one and 20 ms for its
// group (decision 151).
//
// If a batch breaks off, a prefix is kept: all items of committed groups and none of the others. A
// repeat under the same key continues after them (idem.Series); it may send the whole batch, or
// omit the items already answered.
//
// The package is independent of the protocol: a head reads items from a request (Source) and writes
// the answers.
package batch
