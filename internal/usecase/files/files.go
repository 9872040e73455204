package files

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/turn"
)

// Options configures New. DB, Tree and Store are required. A zero field of the others selects its
// default.
type Options struct {
	DB      *sqldb.DB
	Tree    *tree.Tree
	Ledger  quota.Ledger
	Content content.Content
	Store   blob.Store
	// Access authorizes callers. Default: an Access on DB.
	Access *access.Access
	// OnStart is called after the commit of an operation that continues in the background; it must
	// not block and leads to Operations.Run. Default: no call; the operation waits until
	// ListRunning finds it.
	OnStart func(drive.OperationID)
	// OnHandover is called when a handover ends. Default: no call.
	OnHandover OnHandover
	// OnDownload is called when a download begins; it must not block. Default: no call.
	OnDownload func(who drive.Who, file drive.NodeID)
	// Direct is the number of nodes that a call processes before it returns. More nodes become an
	// operation. Default: 1,000.
	Direct int64
	// Batch is the number of rows that one transaction of an operation processes, 500 at most.
	// Default: 200 (some 20 ms).
	Batch int
	// LongTurns limits concurrent long transactions; it may be shared with other packages. Default:
	// turn.NewLongLimiter.
	LongTurns *turn.LongLimiter
	// Fingerprint identifies the database and changes with each restore of a backup, which
	// invalidates all feed positions. Empty: the database was never restored.
	Fingerprint string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	Log *slog.Logger // default: slog.Default
}

// maxBatch bounds Options.Batch.
const maxBatch = 500

// Files implements the use cases on nodes. It is safe for concurrent use.
type Files struct {
	// Use cases on many nodes, which run in batches.
	Operations *Operations
	Copies     *Copies
	Handovers  *Handovers

	// Contents opens the content of files.
	Contents *Contents

	opt Options
	*presenter
	*accounting
	searches *turn.Limiter
	sums     *folderSums
}

// New returns the use cases with defaults for the zero fields of opt. It does no I/O and starts no
// goroutine.
func New(opt Options) *Files {
	if opt.Access == nil {
		opt.Access = access.New(access.Options{DB: opt.DB, Now: opt.Now})
	}
	if opt.OnStart == nil {
		opt.OnStart = func(drive.OperationID) {}
	}
	if opt.OnHandover == nil {
		opt.OnHandover = func(context.Context, *sqldb.Tx, drive.AccountID, string, int) (string, error) { return "", nil }
	}
	if opt.OnDownload == nil {
		opt.OnDownload = func(drive.Who, drive.NodeID) {}
	}
	if opt.Direct == 0 {
		opt.Direct = 1000
	}
	if opt.Batch == 0 {
		opt.Batch = 200
	}
	opt.Batch = min(opt.Batch, maxBatch)
	opt.LongTurns = cmp.Or(opt.LongTurns, turn.NewLongLimiter(opt.DB.Concurrency))
	if opt.Now == nil {
		opt.Now = time.Now
	}
	f := &Files{
		opt: opt, presenter: &presenter{&authorizer{opt.Access, opt.Tree, opt.DB}, opt.Content}, accounting: &accounting{opt.DB, opt.Ledger, opt.Content},
		searches: turn.New(searchesPerAccount, searchesInTotal), sums: newFolderSums(opt.DB, opt.LongTurns),
	}
	inspector := content.Inspector{Content: opt.Content, DB: opt.DB, Store: opt.Store, Log: opt.Log}
	f.Contents = &Contents{f.authorizer, f.presenter, inspector, opt.Store, f.now, opt.OnDownload}
	f.compose()
	return f
}

// compose creates Operations, Copies and Handovers.
func (f *Files) compose() {
	rows := &operationStore{f.opt.Ledger, f.now}
	purge := purgeHandler{f.opt.Tree, f.accounting, f.opt.Batch}
	copies := &copyHandler{f.authorizer, f.accounting, rows, LockRules(f.opt.Now, f.opt.Access), f.opt.Batch}
	hand := &handoverHandler{f.authorizer, rows, f.opt.Batch, f.opt.OnHandover}
	f.Operations = &Operations{
		db: f.opt.DB, store: rows, turns: f.opt.LongTurns, direct: f.opt.Direct, start: f.opt.OnStart,
		handlers: map[kind]handler{purgeNode: &purge, emptyTrash: &emptyTrashHandler{purge}, copyFolder: copies, handOver: hand},
	}
	f.Copies = &Copies{f.authorizer, f.presenter, f.accounting, f.Operations, copies, f.sums}
	f.Handovers = &Handovers{f.authorizer, f.presenter, rows, hand}
}

// now returns the current time of Options.Now.
func (f *Files) now() drive.Time { return drive.TimeOf(f.opt.Now()) }

// Result holds either the node that a call created or, if the work continues in the background, the
// operation that will create it. The other field is nil.
type Result struct {
	Node      *NodeView
	Operation *Operation
}

// Hook runs at the end of the transaction that decides the response of a creating call. A head uses
// it to store an idempotency key atomically with the effect. A nil Hook does nothing; an error
// rolls the transaction back.
type Hook func(ctx context.Context, tx *sqldb.Tx, r Result) error

// run calls h within tx and returns its error, which must roll tx back. A nil h does nothing.
func (h Hook) run(ctx context.Context, tx *sqldb.Tx, r Result) error {
	if h == nil {
		return nil
	}
	return h(ctx, tx, r)
}
