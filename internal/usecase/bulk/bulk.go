package bulk

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/turn"
	"example.org/smartdrive/internal/usecase/files"
)

// Kind is what an operation does to each item.
type Kind string

// Subtree is an operation of package files on one node and its subtree. It is only shown here;
// Create does not accept it.
const (
	Trash   Kind = "trash"
	Restore Kind = "restore"
	Delete  Kind = "delete"
	Move    Kind = "move"
	Copy    Kind = "copy"
	Unshare Kind = "unshare"
	Subtree Kind = "subtree"
)

// State tells whether an operation is running or how it ended.
type State string

// Only a Subtree can be Failed: the items of other operations fail one by one.
const (
	Running   State = "running"
	Done      State = "done"
	Cancelled State = "cancelled"
	Failed    State = "failed"
)

// Operation is work on many items, as shown in the native API.
type Operation struct {
	ID        drive.OperationID
	Kind      Kind
	State     State
	Done      int64              // items processed, failed ones too
	Failed    int64              // items that failed
	Total     int64              // items in total; of a new undo an estimate
	Error     string             // why a subtree operation failed
	Parent    *drive.NodeID      // target folder; nil: none
	Undoable  bool               // Undo may have something to do
	Undoes    *drive.OperationID // operation that this one undoes; nil: none
	UndoneBy  *drive.OperationID // operation that undoes this one; nil: none
	CreatedAt drive.Time
	UpdatedAt drive.Time
}

// Shares is the part of share.Shares that unsharing needs.
type Shares interface {
	// Remove deletes a share of the account within tx.
	Remove(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.ShareID) error
	// IDs returns the ids of up to limit shares of the account.
	IDs(ctx context.Context, q sqldb.Querier, account drive.AccountID, limit int) ([]drive.ShareID, error)
}

// Options configure New. DB, Tree, Files and Shares are required; other zero fields select their
// defaults.
type Options struct {
	DB     *sqldb.DB
	Tree   *tree.Tree
	Ledger quota.Ledger
	Files  *files.Files
	Shares Shares
	// Start is called after the commit with each operation that must run in the background; it
	// must not block. Default: no call, and the operation waits for ListRunning.
	Start func(drive.OperationID)
	// Events receives records about background operations that ended with failures. Default:
	// none.
	Events stream.Publisher
	// ItemsPerTransaction is the most items per transaction. Default: 200 (about 50 ms).
	ItemsPerTransaction int
	// TransactionsPerRun is the number of transactions that Run executes before it yields to other
	// accounts. Default: 20 (about a second).
	TransactionsPerRun int
	// MaxImmediate is the most items that a call executes before it answers. Default: 400.
	MaxImmediate int64
	// MaxRunning is the most operations of an account that may run or wait. Default: 20.
	MaxRunning int
	// MaxStoredItems is the most items that all operations of an account may have, including ended
	// ones, of which the oldest are deleted. Default: 1,000,000, about 100 MB if all were
	// moves.
	MaxStoredItems int64
	// LongTurns limits long transactions and may be shared with other users. Default:
	// turn.NewLongLimiter.
	LongTurns *turn.LongLimiter
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// RetentionClock is the clock for retention; see package retention. Default: Now.
	RetentionClock func() time.Time
	Log            *slog.Logger // default: discards
}

const (
	// MaxItems is the most items of one operation.
	MaxItems  = 100_000
	maxBulks  = 1000               // operations of an account, including ended ones
	retention = 7 * 24 * time.Hour // retention of ended operations
)

// Bulk creates, runs and shows operations. All state is in the database, so it is safe for
// concurrent use by several instances.
type Bulk struct{ opt Options }

// New returns a Bulk with defaults for the zero fields of opt. It does no I/O and starts no
// goroutine.
func New(opt Options) *Bulk {
	if opt.Start == nil {
		opt.Start = func(drive.OperationID) {}
	}
	if opt.ItemsPerTransaction == 0 {
		opt.ItemsPerTransaction = 200
	}
	if opt.TransactionsPerRun == 0 {
		opt.TransactionsPerRun = 20
	}
	if opt.MaxImmediate == 0 {
		opt.MaxImmediate = 400
	}
	if opt.MaxRunning == 0 {
		opt.MaxRunning = 20
	}
	if opt.MaxStoredItems == 0 {
		opt.MaxStoredItems = 1_000_000
	}
	opt.LongTurns = cmp.Or(opt.LongTurns, turn.NewLongLimiter(opt.DB.Concurrency))
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.RetentionClock == nil {
		opt.RetentionClock = opt.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Bulk{opt}
}

// now returns the current time of Options.Now.
func (b *Bulk) now() drive.Time { return drive.TimeOf(b.opt.Now()) }

// write runs fn in a transaction that first locks the ledger of who's account. fn may run several
// times; its error rolls back and is returned.
func (b *Bulk) write(ctx context.Context, who drive.Who, fn func(context.Context, *sqldb.Tx) error) error {
	return b.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		if err := b.opt.Ledger.Lock(ctx, tx, who.Account); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}
