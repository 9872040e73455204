package blob

import (
	"context"
	"io"
	"time"

	"smartdrive/internal/base/drive"
)

// Store holds sealed content, each under a name of its own. Names are upload ids,
// "put-<generation>-<id>", or those of slots.
type Store interface {
	// Caps says what this store can and cannot do. It may change while an installation moves.
	Caps() StoreCaps

	// Put stores what body yields under a new name, durably when it returns nil. On any error
	// nothing stays. It returns the part that body's Finish returned. A full disk is DiskFull. Some
	// bytes may be seen under the name before all of them are there: no row names new content.
	Put(ctx context.Context, name string, body Body) (Part, error)
	// Name returns the name under which new content of that size is best laid: own, a name that
	// nobody else uses, or that of a place with others. Then Lay must follow, once, and not Put.
	Name(own string, size drive.ByteSize) string
	// Lay is Put without its last step: what it stores may be lost with the machine until a Settle
	// that names it has returned nil. many says that a Settle is to come for many at once.
	Lay(ctx context.Context, name string, body Body, many bool) (Part, error)
	// Settle makes content durable that Lay has stored, for little more than one sync costs. Where
	// it fails, nobody knows which of it is durable.
	Settle(ctx context.Context, names []string) error
	// Receive is Put for content that rows name already: nothing is seen under the name before it
	// is whole and durable.
	Receive(ctx context.Context, name string, body Body) (Part, error)
	// Open gives random access to content. A missing one is NotFound.
	Open(ctx context.Context, name string) (Object, error)
	// Stat returns the size of content; missing is NotFound.
	Stat(ctx context.Context, name string) (drive.ByteSize, error)
	// Free returns the bytes that may still be written, where Caps says that the store is Bounded.
	Free(ctx context.Context) (drive.ByteSize, error)
	// Presign returns a URL that a GET, ranges included, may use for l.Valid, where Caps says that
	// the store has Links. It is made without asking whether the content is there, and is empty
	// where the name tells that the content lies together with others, and cannot be had past this
	// process. Whoever has the URL has the content until then: no revocation ends it early.
	Presign(ctx context.Context, name string, l Link) (url string, err error)

	// Remove deletes content; a missing one is not an error.
	Remove(ctx context.Context, name string) error
	// RemoveAll is Remove of every name, at most MaxRemoved, for little more than one costs. It
	// returns those that are durably gone, in any order, and an error if that is not all of them.
	RemoveAll(ctx context.Context, names []string) (gone []string, err error)
	// Reclaim is RemoveAll of contents that a row remembers, so that it need not be done at once.
	// If to free some of them would write more than it is worth, they stay, readable or not, and
	// are not returned, without an error. The caller asks again for all of them, once others are to
	// go that lie with them (Together). It takes any number of names.
	Reclaim(ctx context.Context, names []string) (gone []string, err error)

	// List calls fn for everything in the store, also for names that the project never gave, in no
	// order.
	List(ctx context.Context, fn func(Stray) error) error
	// ListPage returns up to limit entries of a shard whose places are greater than after, in the
	// order of their places' bytes; more says that others may follow. So what a store holds can be
	// compared with rows in the same order and gone on with later. The size of content is its
	// length, as Stat tells it. What List shows is what lies in the shards, and what is odd.
	ListPage(ctx context.Context, shard, after string, limit int) (page []Stray, more bool, err error)
	// ListOdd calls fn for everything that lies in no shard, in no order.
	ListOdd(ctx context.Context, fn func(Stray) error) error
	// Quarantine moves something that a list showed out of the way and keeps it.
	Quarantine(ctx context.Context, s Stray) error
}

// StoreCaps say what a Store can and cannot do. They are data, read by its users and by blobtest.
type StoreCaps struct {
	Bounded bool // it is known how much room is left: Free
	Links   bool // content can be fetched from where it lies, past this process: Presign
	Frugal  bool // Reclaim may leave contents
	Far     bool // each request takes its time: several at once are worth the memory that they take
	// Little is the largest size of which contents are better laid, and settled together, than put
	// one by one. 0: there is none.
	Little drive.ByteSize
}

// Object is open content. An error of ReadAt is io.EOF, and wraps it, at the end of the content
// alone: never where a connection to the store has ended.
type Object interface {
	io.ReaderAt
	io.Closer
	Size() drive.ByteSize
}

// Link says what a presigned URL gives.
type Link struct {
	Valid       time.Duration // at least a second, at most seven days
	ContentType string        // header of the response; empty: what the store says
	Disposition string        // header of the response; empty: none
}

// Stray is something found in a store or a staging.
type Stray struct {
	Place string // where it lies, relative to the store: for messages and for Quarantine
	Name  string // content: its name; staged upload: its id; empty when the place does not follow the rules
	Size  drive.ByteSize
}
