// Package batch does many things that were asked for in one request: it makes folders, stores small
// files, moves, trashes, and links content that the account has, one item after the other.
//
//	items ──► read: the bytes of a file are laid into the store as they come
//	             │
//	             ▼        what comes without a pause, and is there when the one before it is done
//	          group ──► one round of syncs ──► one transaction ──► answers, in order
//
// Each item succeeds or fails alone, with what it would have been answered alone, and sees what
// those before it have done. While a group is made durable the next one gathers, so the size of
// groups follows the speed of the client by itself. An item waits for the one behind it 2 ms at the
// most, and for its group 20 (decision 151).
//
// A batch that breaks off keeps a prefix: all items of the groups that were committed, and nothing
// of the others. Under a key a repeat goes on behind them (idem.Series): the batch may be sent
// again as a whole, or without the items whose answers have come.
//
// The package knows no protocol. A head reads items out of a request (Source), and writes answers.
package batch
