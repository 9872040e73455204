package bulk

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/turn"
	"smartdrive/internal/usecase/files"
)

// Kind is what is done to each item.
type Kind string

// The kinds. Subtree is work of package files on one node and what is below it; nobody asks for it
// here.
const (
	Trash   Kind = "trash"
	Restore Kind = "restore"
	Delete  Kind = "delete"
	Move    Kind = "move"
	Copy    Kind = "copy"
	Unshare Kind = "unshare"
	Subtree Kind = "subtree"
)

// State is how far an operation is.
type State string

// The states. Failed is only of a Subtree: items fail one by one.
const (
	Running   State = "running"
	Done      State = "done"
	Cancelled State = "cancelled"
	Failed    State = "failed"
)

// Operation is work on many items, as the native API shows it.
type Operation struct {
	ID        drive.OperationID  `json:"id"`
	Kind      Kind               `json:"kind" enum:"trash,restore,delete,move,copy,unshare,subtree" doc:"subtree: what is below one node"`
	State     State              `json:"state" enum:"running,done,cancelled,failed"`
	Done      int64              `json:"done" doc:"items dealt with, failures included"`
	Failed    int64              `json:"failed" doc:"items that were refused"`
	Total     int64              `json:"total" doc:"items; of a subtree nodes, as far as they are known"`
	Error     string             `json:"error"` // of a subtree
	Parent    *drive.NodeID      `json:"parent" doc:"the folder that things go to; null: none"`
	Undoable  bool               `json:"undoable" doc:"an undo would do something"`
	Undoes    *drive.OperationID `json:"undoes" doc:"what it undoes; null: nothing"`
	UndoneBy  *drive.OperationID `json:"undone_by" doc:"the operation that undoes it; null: none"`
	CreatedAt drive.Time         `json:"created_at"`
	UpdatedAt drive.Time         `json:"updated_at"`
}

// Shares is what is needed of shares: it is share.Shares.
type Shares interface {
	Remove(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.ShareID) error
	IDs(ctx context.Context, q sqldb.Querier, account drive.AccountID, limit int) ([]drive.ShareID, error)
}

// Options configure New. DB, Tree, Files and Shares are required; the zero value of each other
// field is its default.
type Options struct {
	DB     *sqldb.DB
	Tree   *tree.Tree
	Ledger quota.Ledger
	Files  *files.Files
	Shares Shares
	// Start is told, after the commit, of an operation that shall run in the background; it must
	// not block. Default: nobody is told, and the operation waits for ListRunning.
	Start func(drive.OperationID)
	// Events is told of operations that ended in the background with failures. Default: nobody is.
	Events stream.Publisher
	// Piece is how many items one transaction deals with at most. Default: 200 (some 50 ms).
	Piece int
	// Slice is how many transactions Run does before others have their turn. Default: 20 (a
	// second).
	Slice int
	// Direct is how many items a call deals with before it answers. Default: 400.
	Direct int64
	// MaxRunning is how many operations of an account may run or wait. Default: 20.
	MaxRunning int
	// MaxKept is how many items the operations of an account may have, ended ones included, of
	// which the oldest make room. Default: 1,000,000, some 100 MB where all of them were moved.
	MaxKept int64
	// Turns are those of long transactions, which others may share. Default: turn.NewLong.
	Turns *turn.Long
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Kept is the clock that says for how long something was kept before it is deleted; see package
	// retention. Default: Now.
	Kept func() time.Time
	Log  *slog.Logger // default: none
}

const (
	// MaxItems is how many items one operation has at most.
	MaxItems = 100_000
	maxBulks = 1000 // of an account, ended ones included
	keep     = 7 * 24 * time.Hour
)

// Bulk makes, runs and shows operations. It is safe for concurrent use; all state is in the
// database.
type Bulk struct{ opt Options }

// New returns a Bulk.
func New(opt Options) *Bulk {
	if opt.Start == nil {
		opt.Start = func(drive.OperationID) {}
	}
	if opt.Piece == 0 {
		opt.Piece = 200
	}
	if opt.Slice == 0 {
		opt.Slice = 20
	}
	if opt.Direct == 0 {
		opt.Direct = 400
	}
	if opt.MaxRunning == 0 {
		opt.MaxRunning = 20
	}
	if opt.MaxKept == 0 {
		opt.MaxKept = 1_000_000
	}
	opt.Turns = cmp.Or(opt.Turns, turn.NewLong(opt.DB.Concurrency))
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Kept == nil {
		opt.Kept = opt.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Bulk{opt}
}

func (b *Bulk) now() drive.Time { return drive.TimeOf(b.opt.Now()) }

// write runs fn in a transaction that begins with the lock on the ledger of the account of who.
func (b *Bulk) write(ctx context.Context, who drive.Who, fn func(context.Context, *sqldb.Tx) error) error {
	return b.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.ActFor(who)
		if err := b.opt.Ledger.Lock(ctx, tx, who.Account); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}
