package batch

import (
	"crypto/sha256"
	"io"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/upload"
)

// Op is what an item asks for.
type Op string

// The ops.
const (
	Folder Op = "folder" // make a folder
	Put    Op = "put"    // store a small file, whose bytes follow
	Claim  Op = "claim"  // make a file of content that the account has
	Move   Op = "move"   // rename, move or touch a node
	Trash  Op = "trash"  // put a node into the trash
)

// Ops are all of them.
func Ops() []Op { return []Op{Folder, Put, Claim, Move, Trash} }

// MaxItems is how many items a batch may have: their answers, and what a repeat has to know, are
// kept in memory.
const MaxItems = 1000

// Item is one thing that is asked for.
type Item struct {
	N    int    // its number in the batch, below MaxItems; numbers grow
	Text []byte // what asks for it, without the bytes of a file: a repeat must say the same
	Op   Op
	Err  error // why it is refused before anything was looked at

	File   upload.PutFile   // Put, Claim; its Check is not asked
	If     upload.Condition // Put, Claim
	Tokens drive.Tokens     // Put: of locks, that its request submits
	Body   io.Reader        // Put: of File.Size bytes
	Folder files.Mkdir      // Folder
	Node   drive.NodeID     // Move, Trash: the node, or
	At     drive.Path       // what is at a path
	To     drive.Path       // Move: where it goes, instead of Change.Parent and Change.Name; nil: nowhere
	Change files.Patch      // Move
	Rev    int64            // Trash: the revision that the caller saw, zero any
}

// Source gives the items of a batch.
type Source interface {
	// Next returns the next item, whose Body is good until the next call; what of it was not read
	// is passed over. io.EOF comes after the last item. Any other error ends the batch: what
	// follows cannot be told apart.
	Next() (Item, error)
	// Err is the error that the next call will return, where it is known already; nil: none.
	Err() error
	// Stop makes a Next, or a Read of a Body, that waits in another goroutine return, and all that
	// follow. It may be called at any time.
	Stop()
}

// Answer is what became of an item.
type Answer struct {
	N        int
	Op       Op
	Created  bool
	Node     *files.NodeView // as it is now; nil: nothing to show, or it has gone since
	Replayed bool            // it was done by an attempt before this one
	Err      error
}

// pending is an item on its way.
type pending struct {
	Item
	mark  idem.Mark
	laid  *upload.Laid
	ready chan struct{} // closed when laid, mark and Err are set; nil: they are
	done  *idem.Done    // by an attempt before this one

	below  tree.Extent // Move
	behind bool        // it is not the first of its group: what was looked at before may be old

	node    tree.Node // the outcome
	created bool
	failed  error
}

// alone reports whether an item must be the first of its group: what it is about is looked at
// before the transaction, and may be of an item before it.
func (p *pending) alone() bool { return p.Op == Move && (p.At != nil || p.To != nil) }

// marked makes the item's mark and lets go of its text: hundreds of items may wait.
func (p *pending) marked(content digest.Sum) { p.mark, p.Text = markOf(p.Text, content), nil }

// markOf is the mark of an item with the digest of its bytes.
func markOf(text []byte, sum digest.Sum) (m idem.Mark) {
	h := sha256.New()
	h.Write(text) // a hash does not fail
	h.Write(sum[:])
	copy(m[:], h.Sum(nil))
	return m
}
