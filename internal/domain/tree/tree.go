package tree

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Options configure New. The zero value of each field is its default.
type Options struct {
	// MaxNodes is the number of nodes an account may have, trash included. Default: 1,000,000.
	MaxNodes int64
	// MaxChanges is the number of nodes that an account may make, change or move in a day (UTC).
	// Each of them leaves rows that are kept for months. Default: MaxNodes, at least
	// 1,000,000.
	MaxChanges int64
	// MaxOldVersions is the number of versions an account may have that are no file's current one.
	// Default: 200,000.
	MaxOldVersions int64
	// KeepVersions is how many of a file's last versions are always kept, the current one included.
	// Default: 5.
	KeepVersions int
	// KeepVersionsFor is how long a version is kept besides. Default: 30 days.
	KeepVersionsFor time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Kept is the clock that says for how long something was kept before it is deleted; see package
	// retention. Default: Now.
	Kept func() time.Time
	// Arrived is told, in the transaction, of a node that has come to be seen where it is, or has
	// other content: put, moved, renamed, restored. What lies below a folder that came is not told
	// of. An error undoes the transaction.
	Arrived func(ctx context.Context, tx *sqldb.Tx, n Node) error
	// Happened is told, in the transaction, of every change of a node but the making of a root: one
	// effect for each number that trees.seq takes. Default: nobody is told.
	Happened func(tx *sqldb.Tx, e Effect)
	// Replaces is asked, in the transaction, before a user gives a node another content, or another
	// time alone. An error undoes the transaction. Default: everybody may.
	Replaces func(ctx context.Context, tx *sqldb.Tx, n Node, by drive.Who) error
	// Leaves is asked, in the transaction, before a live node goes away from its place: moved,
	// renamed, trashed, by itself or for what takes its name, or given to a purge. What is below it
	// goes with it and is not asked for. by is the one that the transaction acts for; zero: the
	// program itself. An error undoes the transaction. Default: everybody may.
	Leaves func(ctx context.Context, tx *sqldb.Tx, n Node, by drive.Who) error
	// Enters is asked, in the transaction, before a node comes into a folder: made, moved, renamed
	// or restored there. by is as in Leaves. An error undoes the transaction. Default: everybody
	// may.
	Enters func(ctx context.Context, tx *sqldb.Tx, in Folder, by drive.Who) error
	// Trashed is told, in the transaction, of a folder that goes into the trash: by itself, for
	// what takes its name, or to be purged. An error undoes the transaction. Default: nobody is
	// told.
	Trashed func(ctx context.Context, tx *sqldb.Tx, n Node) error
	// Held reports whether all of these locks are held. Default: none is.
	Held func(ctx context.Context, q sqldb.Querier, locks []drive.LockID) (bool, error)
}

// Folder is a folder of an account, by its id.
type Folder struct {
	Account drive.AccountID
	ID      drive.NodeID
}

// Effect is one change of a node.
type Effect struct {
	Node Node
	Was  Node         // before; zero: it is new
	Gone bool         // it was deleted for good: Node is as it was last, with the seq of its tombstone
	From drive.NodeID // what a copy was copied from
	// Handed says that it has come from another account, or with Gone, that it went to one; what
	// took the place of a folder has that one's id as From.
	Handed bool
	By     drive.Who // whose content it is; zero: of whoever the transaction is for
}

// Tree is the store of nodes. It is safe for concurrent use; all state is in the database.
type Tree struct {
	Reader
	opt  Options
	sums sums
}

// Reader is what can be asked of the tree. It writes nothing and needs no options.
type Reader struct{}

// New returns a Tree.
func New(opt Options) *Tree {
	opt.MaxNodes = cmp.Or(opt.MaxNodes, 1_000_000)
	opt.MaxChanges = cmp.Or(opt.MaxChanges, max(opt.MaxNodes, 1_000_000))
	opt.MaxOldVersions = cmp.Or(opt.MaxOldVersions, 200_000)
	opt.KeepVersions = cmp.Or(opt.KeepVersions, 5)
	opt.KeepVersionsFor = cmp.Or(opt.KeepVersionsFor, 30*24*time.Hour)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Kept == nil {
		opt.Kept = opt.Now
	}
	if opt.Arrived == nil {
		opt.Arrived = func(context.Context, *sqldb.Tx, Node) error { return nil }
	}
	if opt.Happened == nil {
		opt.Happened = func(*sqldb.Tx, Effect) {}
	}
	if opt.Replaces == nil {
		opt.Replaces = func(context.Context, *sqldb.Tx, Node, drive.Who) error { return nil }
	}
	if opt.Leaves == nil {
		opt.Leaves = func(context.Context, *sqldb.Tx, Node, drive.Who) error { return nil }
	}
	if opt.Enters == nil {
		opt.Enters = func(context.Context, *sqldb.Tx, Folder, drive.Who) error { return nil }
	}
	if opt.Held == nil {
		opt.Held = func(context.Context, sqldb.Querier, []drive.LockID) (bool, error) { return false, nil }
	}
	if opt.Trashed == nil {
		opt.Trashed = func(context.Context, *sqldb.Tx, Node) error { return nil }
	}
	return &Tree{opt: opt, sums: sums{sqldb.Deferred[sumChange]{Do: applySums}}}
}

// KeepVersionsFor is Options.KeepVersionsFor.
func (t *Tree) KeepVersionsFor() time.Duration { return t.opt.KeepVersionsFor }

func (t *Tree) now() drive.Time { return drive.TimeOf(t.opt.Now()) }

func (t *Tree) kept() drive.Time { return drive.TimeOf(t.opt.Kept()) }

// Create makes the tree of an account and returns its root; a tree that is there already is left as
// it is.
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
	t.sums.Add(tx, sumChange{folder: root, made: true})
	return root, insertNode(ctx, tx, Node{
		ID: root, Account: account, Type: TypeFolder, Rev: 1, Seq: 1, MTime: now, Created: now, Updated: now,
	})
}

// Root returns the id of the account's root folder. An account without a tree is NotFound.
func (r Reader) Root(ctx context.Context, q sqldb.Querier, account drive.AccountID) (root drive.NodeID, err error) {
	err = q.QueryRow(ctx, "SELECT root_id FROM trees WHERE account_id = ?", account).Scan(&root)
	return root, err
}

// change announces changes of n nodes and a growth of the number of nodes: it takes the lock on the
// tree and returns the last of the n numbers that the changes get. More nodes than an account may
// have is TooLarge {field: nodes, reason: nodes, limit, sent}; more changes than an account may
// make in a day is TooLarge {field: nodes, reason: changes, limit, sent}; growth of a tree that is
// closed is NotFound. Deletions are always allowed and are not counted: there are no more of them
// than of nodes that were made.
func (t *Tree) change(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, n, growth int64) (seq int64, err error) {
	c := changes{n: n, growth: growth}
	if growth >= 0 {
		c.counted = n
	}
	return c.announce(ctx, tx, t, account)
}

// today is the day in UTC that changes are counted on.
func (o Options) today() int64 { return o.Now().Unix() / int64(24*time.Hour/time.Second) }

// changes are those of one transaction.
type changes struct {
	n       int64
	growth  int64 // of the number of nodes
	counted int64 // of the n, among the changes of the day
}

// announce is change.
func (c changes) announce(ctx context.Context, tx *sqldb.Tx, t *Tree, account drive.AccountID) (seq int64, err error) {
	today := t.opt.today()
	// No LAST_INSERT_ID, which would save a round trip: while a migration is armed, trees have a
	// trigger, and under it the answer does not have the number. MySQL assigns from left to right:
	// changed is computed before changed_on is today.
	changed, err := tx.Exec(ctx, `UPDATE trees SET seq = seq + ?, node_count = node_count + ?,
		changed = ? + CASE WHEN changed_on = ? THEN changed ELSE 0 END, changed_on = ?
		WHERE account_id = ? AND (? <= 0 OR closed = 0 AND node_count + ? <= ?) AND (? = 0 OR changed_on <> ? OR changed + ? <= ?)`,
		c.n, c.growth, c.counted, today, today, account, c.growth, c.growth, t.opt.MaxNodes, c.counted, today, c.counted, t.opt.MaxChanges)
	if err != nil {
		return 0, fmt.Errorf("take the next seq: %w", err)
	}
	var count, sent int64
	var closed bool
	err = tx.QueryRow(ctx, "SELECT seq, node_count, closed, changed FROM trees WHERE account_id = ?", account).Scan(&seq, &count, &closed, &sent)
	switch {
	case err != nil || changed > 0:
	case c.growth > 0 && closed:
		err = drive.Fail(drive.NotFound)
	case c.growth > 0 && count+c.growth > t.opt.MaxNodes:
		err = drive.Fail(drive.TooLarge, "field", "nodes", "reason", "nodes", "limit", t.opt.MaxNodes, "sent", count+c.growth)
	default:
		err = drive.Fail(drive.TooLarge, "field", "nodes", "reason", "changes", "limit", t.opt.MaxChanges, "sent", sent+c.counted)
	}
	return seq, err
}
