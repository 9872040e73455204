package files

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/turn"
)

// Options configure New. DB, Tree and Store are required; the zero value of each other
// field is its default.
type Options struct {
	DB      *sqldb.DB
	Tree    *tree.Tree
	Ledger  quota.Ledger
	Content content.Content
	Store   blob.Store
	// Access decides who may do what. Default: one of the database.
	Access *access.Access
	// Start is told, after the commit, of an operation that shall run in the background; it must
	// not block. Default: nobody is told, and the operation waits for ListRunning.
	Start func(drive.OperationID)
	// Handed is told of the end of handovers. Default: nobody is.
	Handed Handed
	// Downloaded is told of a download that begins; it must not block. Default: nobody is.
	Downloaded func(who drive.Who, file drive.NodeID)
	// Direct is how many nodes a call deals with before it answers; more become an operation.
	// Default: 1,000.
	Direct int64
	// Batch is how many rows one transaction of a purge or a copy deals with, 500 at most. Default:
	// 200 (some 20 ms).
	Batch int
	// Turns are those of long transactions, which others may share. Default: turn.NewLong.
	Turns *turn.Long
	// Fingerprint is of the database, and another one after each restore of a backup: it ends all
	// positions in feeds. Empty: there was no restore.
	Fingerprint string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	Log *slog.Logger // default: slog.Default
}

const maxBatch = 500

// Files is the set of use cases on nodes. It is safe for concurrent use.
type Files struct {
	// What works on many nodes, a batch at a time.
	Operations *Operations
	Copies     *Copies
	Handovers  *Handovers

	// Contents open what files contain.
	Contents *Contents

	opt Options
	*display
	*books
	searches *turn.Turns
	sums     *sums
}

// New returns a Files.
func New(opt Options) *Files {
	if opt.Access == nil {
		opt.Access = access.New(access.Options{DB: opt.DB, Now: opt.Now})
	}
	if opt.Start == nil {
		opt.Start = func(drive.OperationID) {}
	}
	if opt.Handed == nil {
		opt.Handed = func(context.Context, *sqldb.Tx, drive.AccountID, string, int) (string, error) { return "", nil }
	}
	if opt.Downloaded == nil {
		opt.Downloaded = func(drive.Who, drive.NodeID) {}
	}
	if opt.Direct == 0 {
		opt.Direct = 1000
	}
	if opt.Batch == 0 {
		opt.Batch = 200
	}
	opt.Batch = min(opt.Batch, maxBatch)
	opt.Turns = cmp.Or(opt.Turns, turn.NewLong(opt.DB.Concurrency))
	if opt.Now == nil {
		opt.Now = time.Now
	}
	f := &Files{
		opt: opt, display: &display{&doors{opt.Access, opt.Tree, opt.DB}, opt.Content}, books: &books{opt.DB, opt.Ledger, opt.Content},
		searches: turn.New(searchesEach, searchesAtOnce), sums: newSums(opt.DB, opt.Turns),
	}
	inspector := content.Inspector{Content: opt.Content, DB: opt.DB, Store: opt.Store, Log: opt.Log}
	f.Contents = &Contents{f.doors, f.display, inspector, opt.Store, f.now, opt.Downloaded}
	f.compose()
	return f
}

// compose makes what works on many nodes.
func (f *Files) compose() {
	rows := &register{f.opt.Ledger, f.now}
	purge := purging{f.opt.Tree, f.books, f.opt.Batch}
	copies := &copying{f.doors, f.books, rows, LockRules(f.opt.Now, f.opt.Access), f.opt.Batch}
	hand := &handingOver{f.doors, rows, f.opt.Batch, f.opt.Handed}
	f.Operations = &Operations{
		db: f.opt.DB, rows: rows, turns: f.opt.Turns, direct: f.opt.Direct, start: f.opt.Start,
		works: map[kind]work{purgeNode: &purge, emptyTrash: &emptying{purge}, copyFolder: copies, handOver: hand},
	}
	f.Copies = &Copies{f.doors, f.display, f.books, f.Operations, copies, f.sums}
	f.Handovers = &Handovers{f.doors, f.display, rows, hand}
}

func (f *Files) now() drive.Time { return drive.TimeOf(f.opt.Now()) }

// Result is what a call made: the node, or the operation that will.
type Result struct {
	Node      *NodeView
	Operation *Operation
}

// Hook runs at the end of the transaction that decides what a creating call answers, so that an
// idempotency key commits with its effect. Nil does nothing; an error undoes the effect.
type Hook func(ctx context.Context, tx *sqldb.Tx, r Result) error

func (h Hook) run(ctx context.Context, tx *sqldb.Tx, r Result) error {
	if h == nil {
		return nil
	}
	return h(ctx, tx, r)
}
