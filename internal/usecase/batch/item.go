package batch

import (
	"crypto/sha256"
	"io"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
)

// Op tells what an item does; an unknown one is refused.
type Op string

// The operations of a batch.
const (
	Folder Op = "folder" // create a folder
	Put    Op = "put"    // store a small file; its bytes follow
	Claim  Op = "claim"  // create a file from content that the account owns
	Move   Op = "move"   // rename or move a node, or set its time
	Trash  Op = "trash"  // move a node to the trash
)

// Ops returns all operations.
func Ops() []Op { return []Op{Folder, Put, Claim, Move, Trash} }

// MaxItems is the largest number of items of a batch. Their answers and replay records are kept in
// memory.
const MaxItems = 1000

// Item is one element of a batch, as the client sent it. Which fields count depends on Op.
type Item struct {
	N    int    // number in the batch, ascending, below MaxItems
	Text []byte // the item's request without file bytes; a repeat must be identical
	Op   Op
	Err  error // the item is invalid and is refused with this

	File       upload.PutFile   // Put, Claim; Check is ignored
	Condition  upload.Condition // Put, Claim: condition for the target
	Tokens     drive.Tokens     // Put: lock tokens of the request
	Body       io.Reader        // Put: File.Size bytes
	Folder     files.Mkdir      // Folder
	Node       drive.NodeID     // Move, Trash: the node, unless Path is set
	Path       drive.Path       // Move, Trash: the node's path
	TargetPath drive.Path       // Move: the target path, instead of Change.Parent and Change.Name; nil: not used
	Change     files.Patch      // Move
	Rev        int64            // Trash: expected revision; zero: any
}

// Source supplies the items of a batch.
type Source interface {
	// Next returns the next item and skips what was not read of the previous Body, which
	// becomes invalid. It returns io.EOF after the last item. Any other error ends the batch.
	Next() (Item, error)
	// Err returns the error of the next call of Next if it is already known, else nil.
	Err() error
	// Stop makes a pending Next or Body.Read in another goroutine return, and all later calls
	// fail. It may be called at any time.
	Stop()
}

// Answer is the result of an item, sent to the client after its group has committed.
type Answer struct {
	N        int
	Op       Op
	Created  bool
	Node     *files.NodeView // as it is now; nil: nothing to show, or deleted since
	Replayed bool            // an earlier attempt did the item
	Err      error
}

// pending is an item being executed and, after its transaction, its result.
type pending struct {
	Item
	mark  idem.ItemHash        // hash of the request, by which a repeat is recognized
	laid  *upload.UnsyncedFile // stored content of a Put; nil: none
	ready chan struct{}        // closed once laid, mark and Err are set; nil: they are set
	done  *idem.ItemResult     // result of an earlier attempt; nil: none

	below  tree.Extent // Move: extent of the subtree
	behind bool        // not the first of its group: data read before the transaction may be outdated

	node    tree.Node // the result
	created bool
	failed  error
}

// startsGroup reports whether the item must be the first of its group, because data read before the
// transaction may depend on earlier items.
func (p *pending) startsGroup() bool { return p.Op == Move && (p.Path != nil || p.TargetPath != nil) }

// setMark sets the item's replay mark, the hash by which a repeat of the item is recognized, and
// drops its text to save memory.
func (p *pending) setMark(content digest.Sum) { p.mark, p.Text = markOf(p.Text, content), nil }

// markOf returns the replay mark of an item: a hash of its text and the digest of its bytes.
func markOf(text []byte, sum digest.Sum) (m idem.ItemHash) {
	h := sha256.New()
	h.Write(text) // never fails
	h.Write(sum[:])
	copy(m[:], h.Sum(nil))
	return m
}
