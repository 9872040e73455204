package tree

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Options configures New. The zero value of each field selects its default. The hooks run inside
// the transaction of the change, and an error from one rolls it back.
type Options struct {
	// MaxNodes bounds the nodes of an account, trash included. Default: 1,000,000.
	MaxNodes int64
	// MaxChanges bounds how many nodes an account may create, change or move per day (UTC), because
	// each leaves rows that are kept for months. Default: MaxNodes, at least 1,000,000.
	MaxChanges int64
	// MaxOldVersions bounds the versions of an account that are not a file's current one. Default:
	// 200,000.
	MaxOldVersions int64
	// KeepVersions is how many of a file's last versions are kept regardless of age, the current
	// one included. Default: 5.
	KeepVersions int
	// KeepVersionsFor is how long other versions are kept. Default: 30 days.
	KeepVersionsFor time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// RetentionClock is the clock that retention periods are measured with; see package retention.
	// Default: Now.
	RetentionClock func() time.Time
	// OnPlaced is called after a node becomes visible at a place or gets new content: put, moved,
	// renamed or restored. It is not called for descendants. Default: no call.
	OnPlaced func(ctx context.Context, tx *sqldb.Tx, n Node) error
	// OnEffect is called for every change of a node except the creation of a root, once per seq.
	// Default: no call.
	OnEffect func(tx *sqldb.Tx, e Effect)
	// CheckReplace is called before a user changes a node's content, or only its time. Default:
	// allowed.
	CheckReplace func(ctx context.Context, tx *sqldb.Tx, n Node, by drive.Who) error
	// CheckRemove is called before a live node leaves its place: moved, renamed, trashed, replaced
	// or purged. It is not called for descendants. by is the user that the transaction acts for;
	// zero: the server. Default: allowed.
	CheckRemove func(ctx context.Context, tx *sqldb.Tx, n Node, by drive.Who) error
	// CheckAdd is called before a node is created in, moved into, renamed in or restored to a
	// folder. by is as in CheckRemove. Default: allowed.
	CheckAdd func(ctx context.Context, tx *sqldb.Tx, in Folder, by drive.Who) error
	// OnFolderTrashed is called when a folder goes to the trash: trashed, replaced or purged.
	// Default: no call.
	OnFolderTrashed func(ctx context.Context, tx *sqldb.Tx, n Node) error
	// LocksHeld reports whether all of these WebDAV locks are held. Default: false.
	LocksHeld func(ctx context.Context, q sqldb.Querier, locks []drive.LockID) (bool, error)
}

// Folder identifies a folder and its account.
type Folder struct {
	Account drive.AccountID
	ID      drive.NodeID
}

// Effect describes one change of a node.
type Effect struct {
	Node    Node
	Before  Node         // state before; zero: the node is new
	Deleted bool         // permanently deleted: Node is its last state with the seq of its tombstone
	From    drive.NodeID // source of a copy; zero: not a copy
	// HandedOver tells that the node came from another account, or with Deleted, that it left for
	// one. From is then the original of a folder's counterpart.
	HandedOver bool
	By         drive.Who // author of the content; zero: the user that the transaction acts for
}

// Tree stores nodes. It is safe for concurrent use; all state is in the database.
type Tree struct {
	Reader
	opt  Options
	sums sumTracker
}

// Reader reads trees. It needs no options.
type Reader struct{}

// New returns a Tree configured by opt. Zero numbers and durations get their defaults, and nil
// functions become functions that allow everything and do nothing.
func New(opt Options) *Tree {
	opt.MaxNodes = cmp.Or(opt.MaxNodes, 1_000_000)
	opt.MaxChanges = cmp.Or(opt.MaxChanges, max(opt.MaxNodes, 1_000_000))
	opt.MaxOldVersions = cmp.Or(opt.MaxOldVersions, 200_000)
	opt.KeepVersions = cmp.Or(opt.KeepVersions, 5)
	opt.KeepVersionsFor = cmp.Or(opt.KeepVersionsFor, 30*24*time.Hour)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.RetentionClock == nil {
		opt.RetentionClock = opt.Now
	}
	if opt.OnPlaced == nil {
		opt.OnPlaced = func(context.Context, *sqldb.Tx, Node) error { return nil }
	}
	if opt.OnEffect == nil {
		opt.OnEffect = func(*sqldb.Tx, Effect) {}
	}
	if opt.CheckReplace == nil {
		opt.CheckReplace = func(context.Context, *sqldb.Tx, Node, drive.Who) error { return nil }
	}
	if opt.CheckRemove == nil {
		opt.CheckRemove = func(context.Context, *sqldb.Tx, Node, drive.Who) error { return nil }
	}
	if opt.CheckAdd == nil {
		opt.CheckAdd = func(context.Context, *sqldb.Tx, Folder, drive.Who) error { return nil }
	}
	if opt.LocksHeld == nil {
		opt.LocksHeld = func(context.Context, sqldb.Querier, []drive.LockID) (bool, error) { return false, nil }
	}
	if opt.OnFolderTrashed == nil {
		opt.OnFolderTrashed = func(context.Context, *sqldb.Tx, Node) error { return nil }
	}
	return &Tree{opt: opt, sums: sumTracker{sqldb.Deferred[sumChange]{Do: applySums}}}
}

// KeepVersionsFor returns Options.KeepVersionsFor.
func (t *Tree) KeepVersionsFor() time.Duration { return t.opt.KeepVersionsFor }

// now returns the time that new rows get, from Options.Now.
func (t *Tree) now() drive.Time { return drive.TimeOf(t.opt.Now()) }

// retentionNow returns the time by which retention periods are measured.
func (t *Tree) retentionNow() drive.Time { return drive.TimeOf(t.opt.RetentionClock()) }

// Create creates the tree of an account and returns its root. If the tree exists, it returns that
// tree's root.
func (t *Tree) Create(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) (drive.NodeID, error) {
	root := drive.NewID[drive.NodeID]()
	made, err := tx.InsertNew(ctx, `INSERT INTO trees (account_id, root_id, seq, node_count) VALUES (?, ?, 1, 0)`, account, root)
	if err != nil {
		return root, fmt.Errorf("create the tree of %v: %w", account, err)
	}
	if !made {
		return t.Root(ctx, tx, account)
	}
	now := t.now()
	t.sums.Add(tx, sumChange{folder: root, isNew: true})
	return root, insertNode(ctx, tx, Node{
		ID: root, Account: account, Type: TypeFolder, Rev: 1, Seq: 1, MTime: now, Created: now, Updated: now,
	})
}

// Root returns the id of the account's root folder, or NotFound if the account has no tree.
func (r Reader) Root(ctx context.Context, q sqldb.Querier, account drive.AccountID) (root drive.NodeID, err error) {
	err = q.QueryRow(ctx, "SELECT root_id FROM trees WHERE account_id = ?", account).Scan(&root)
	return root, err
}

// allocSeqs allocates n seqs for changes that add growth nodes. It locks the tree and returns the
// last of the n seqs. It fails with TooLarge {field: nodes, reason: nodes, limit, sent} beyond
// MaxNodes, TooLarge {field: nodes, reason: changes, limit, sent} beyond MaxChanges, and NotFound
// if a closed tree would grow. Deletions (negative growth) always succeed and are not counted:
// there are no more of them than created nodes.
func (t *Tree) allocSeqs(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, n, growth int64) (seq int64, err error) {
	c := seqRequest{n: n, growth: growth}
	if growth >= 0 {
		c.counted = n
	}
	return c.alloc(ctx, tx, t, account)
}

// today returns the UTC day by which changes are counted, in days since 1970.
func (o Options) today() int64 { return o.Now().Unix() / int64(24*time.Hour/time.Second) }

// seqRequest is one allocation of seqs; see allocSeqs.
type seqRequest struct {
	n       int64 // seqs to allocate
	growth  int64 // change of the number of nodes
	counted int64 // how many of n count as changes of the day
}

// alloc adds the requested sequence numbers, new nodes and counted changes to the account's row of
// trees and returns the last allocated number. If a limit would be exceeded it fails with TooLarge
// {nodes or changes}, and with NotFound if nodes shall be added to a closed tree; it has then
// changed nothing. The row stays locked until tx ends.
func (r seqRequest) alloc(ctx context.Context, tx *sqldb.Tx, t *Tree, account drive.AccountID) (seq int64, err error) {
	today := t.opt.today()
	// LAST_INSERT_ID would save a round trip, but during a migration trees has a trigger under
	// which the reply lacks the number. MySQL assigns from left to right: changed is computed
	// before changed_on becomes today.
	changed, err := tx.Exec(ctx, `UPDATE trees SET seq = seq + ?, node_count = node_count + ?,
		changed = ? + CASE WHEN changed_on = ? THEN changed ELSE 0 END, changed_on = ?
		WHERE account_id = ? AND (? <= 0 OR closed = 0 AND node_count + ? <= ?) AND (? = 0 OR changed_on <> ? OR changed + ? <= ?)`,
		r.n, r.growth, r.counted, today, today, account, r.growth, r.growth, t.opt.MaxNodes, r.counted, today, r.counted, t.opt.MaxChanges)
	if err != nil {
		return 0, fmt.Errorf("take the next seq: %w", err)
	}
	var count, sent int64
	var closed bool
	err = tx.QueryRow(ctx, "SELECT seq, node_count, closed, changed FROM trees WHERE account_id = ?", account).Scan(&seq, &count, &closed, &sent)
	switch {
	case err != nil || changed > 0:
	case r.growth > 0 && closed:
		err = drive.Fail(drive.NotFound)
	case r.growth > 0 && count+r.growth > t.opt.MaxNodes:
		err = drive.Fail(drive.TooLarge, "field", "nodes", "reason", "nodes", "limit", t.opt.MaxNodes, "sent", count+r.growth)
	default:
		err = drive.Fail(drive.TooLarge, "field", "nodes", "reason", "changes", "limit", t.opt.MaxChanges, "sent", sent+r.counted)
	}
	return seq, err
}
