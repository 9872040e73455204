package blob

import (
	"context"
	"io"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// Store holds sealed content. Names are upload ids, put-GENERATION-ID, or those of slots (see
// Slot).
type Store interface {
	// Caps describes the abilities of this store. They may change while an installation moves to
	// another store.
	Caps() StoreCaps

	// Put stores body under a new name and returns the part that body's Finish returned. When Put
	// returns nil the content is durable. On any error nothing remains. A full disk is DiskFull.
	// The name may be visible before all bytes are there, because no row refers to new content yet.
	Put(ctx context.Context, name string, body Body) (Part, error)
	// ReserveName returns the best name for new content of that size: own, which no other content
	// may use, or the name of a slot. If it is not own, the caller must call PutUnsynced once with
	// it, and not Put.
	ReserveName(own string, size drive.ByteSize) string
	// PutUnsynced stores content like Put, without the final sync. The content may be lost in a
	// power failure until a Sync with its name has returned nil. many announces that one Sync will
	// follow for many contents.
	PutUnsynced(ctx context.Context, name string, body Body, many bool) (Part, error)
	// Sync makes content stored by PutUnsynced durable, for about the cost of one sync. If it
	// fails, the caller cannot tell which of the contents are durable.
	Sync(ctx context.Context, names []string) error
	// PutAtomic stores content that rows already refer to: the name is visible only when the
	// content is complete and durable.
	PutAtomic(ctx context.Context, name string, body Body) (Part, error)
	// Open gives random access to content; missing content is NotFound. The caller closes the
	// object.
	Open(ctx context.Context, name string) (Object, error)
	// Stat returns the size of content; missing content is NotFound.
	Stat(ctx context.Context, name string) (drive.ByteSize, error)
	// Free returns the number of bytes that may still be written. Call it only if Caps has
	// ReportsFree.
	Free(ctx context.Context) (drive.ByteSize, error)
	// Presign returns a URL for a GET, ranges included, valid for l.Valid. Call it only if Caps has
	// Links. Presign does not check that the content exists. It returns an empty URL for content in
	// a pack, which clients can only read through this process. The URL cannot be revoked before it
	// expires.
	Presign(ctx context.Context, name string, l Link) (url string, err error)

	// Remove deletes content. Missing content is not an error.
	Remove(ctx context.Context, name string) error
	// RemoveAll removes up to MaxRemoved names for about the cost of one removal. It returns the
	// names that are durably gone, in any order, and an error if that is not all of them.
	RemoveAll(ctx context.Context, names []string) (gone []string, err error)
	// Reclaim is a RemoveAll that may be incomplete, for contents recorded in a row. Contents whose
	// removal would write more than it frees may stay, readable or not; they are not returned and
	// are not an error. The caller asks again for all of them when other contents of the same pack
	// (PackRange) are to be removed. It accepts any number of names.
	Reclaim(ctx context.Context, names []string) (gone []string, err error)

	// List calls fn for every entry in the store, in no order, including names that the project
	// never gives. It stops at the first error of fn.
	List(ctx context.Context, fn func(Entry) error) error
	// ListPage returns up to limit entries of a shard with places greater than after, ordered by
	// the bytes of their places, so that a caller can compare them with rows and resume later. more
	// reports that others may follow. The size of content is its length, as Stat returns it. List
	// shows exactly the entries of ListPage for all shards and of ListUnsharded.
	ListPage(ctx context.Context, shard, after string, limit int) (page []Entry, more bool, err error)
	// ListUnsharded calls fn for every entry outside of the shards, in no order. It stops at the
	// first error of fn.
	ListUnsharded(ctx context.Context, fn func(Entry) error) error
	// Quarantine moves an entry reported by a listing to the quarantine.
	Quarantine(ctx context.Context, s Entry) error
}

// StoreCaps describe the abilities of a Store for its callers and for blobtest.
type StoreCaps struct {
	ReportsFree   bool // the free space is known: Free works
	Presigns      bool // clients can fetch content directly from the store: Presign works
	DefersReclaim bool // Reclaim may leave contents in place
	HighLatency   bool // each request has network latency: running several at once is worth their memory
	// SmallMax is the largest size of content that is cheaper to store with PutUnsynced and a
	// common Sync than with Put; 0: no size.
	SmallMax drive.ByteSize
}

// Object is open content. ReadAt returns or wraps io.EOF only at the end of the content, never for
// a lost connection to the store.
type Object interface {
	io.ReaderAt
	io.Closer
	// Size returns the length of the content in bytes, which never changes.
	Size() drive.ByteSize
}

// Link describes a presigned URL.
type Link struct {
	Valid       time.Duration // from one second to seven days
	ContentType string        // Content-Type of the response; empty: the store's default
	Disposition string        // Content-Disposition of the response; empty: none
}

// Entry is one entry of a listing of a store or staging.
type Entry struct {
	Path string // path or key relative to the store, for messages and Quarantine
	Name string // name of the content or id of the staged upload; empty if the place does not follow the rules
	Size drive.ByteSize
}
