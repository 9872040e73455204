package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/activity/activitytest"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/bulk"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/share"
)

// fixture is a drive with bulk operations.
type fixture struct {
	*bulk.Bulk
	files  *files.Files
	shares *share.Shares
	db     *sqldb.DB
	tree   *tree.Tree
	told   func(*sqldb.Tx, tree.Effect)
	store  blob.Store
	who    drive.Who
	root   drive.NodeID

	mu      sync.Mutex
	now     time.Time
	started []drive.OperationID
}

type tb interface {
	Helper()
	Context() context.Context
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

func (d *fixture) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *fixture) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

// small runs operations in small transactions and never within the request.
var small = bulk.Options{ItemsPerTransaction: 3, TransactionsPerRun: 2, MaxImmediate: -1}

func newFixture(t testing.TB, opt bulk.Options) *fixture {
	t.Helper()
	d := newFixtureAt(t, sqldbtest.Open(t), treetest.Store(t), opt)
	t.Cleanup(func() { activitytest.Check(t, d.db, d.who.Account) })
	return d
}

func newFixtureAt(t tb, db *sqldb.DB, store blob.Store, opt bulk.Options) *fixture {
	t.Helper()
	d := &fixture{db: db, store: store, now: time.UnixMilli(1_800_000_000_000)}
	cheap := account.Options{Cost: treetest.Cheap, Now: d.clock}
	users := account.NewUsers(db, account.NewAuth(db, cheap), cheap)
	d.told = activity.New(activity.Options{DB: db, Now: d.clock}).RecordNode
	d.tree = tree.New(tree.Options{Now: d.clock, OnEffect: d.told})
	d.files = files.New(files.Options{DB: db, Tree: d.tree, Store: store, Now: d.clock, Direct: 5, Batch: 4})
	secret := vault.New(vault.Options{DB: db, Keys: []vault.Key{key}, Now: d.clock})
	if err := secret.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.shares = share.New(share.Options{DB: db, Tree: d.tree, Users: users, Vault: secret, Now: d.clock})
	opt.DB, opt.Tree, opt.Files, opt.Shares, opt.Now = db, d.tree, d.files, d.shares, d.clock
	opt.Start = func(id drive.OperationID) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.started = append(d.started, id)
	}
	d.Bulk = bulk.New(opt)
	made := treetest.New(t, d.drive(), users, "")
	d.who, d.root = made.Who, made.Root
	return d
}

// drive returns the drive under test.
func (d *fixture) drive() treetest.Drive {
	return treetest.Drive{DB: d.db, Tree: d.tree, Store: d.store, Who: d.who, Root: d.root}
}

func (d *fixture) limit(t tb, total drive.ByteSize) {
	t.Helper()
	d.drive().Limit(t, total)
}

// put stores a file as an upload would, folders included.
func (d *fixture) put(t tb, at, text string) drive.NodeID {
	t.Helper()
	n, err := d.drive().Put(t, at, text, tree.File{Mime: "text/plain"})
	if err != nil {
		t.Fatal(err)
	}
	return n.ID
}

// createFiles creates files f0 to f(n-1) in a folder, and returns the folder and the files.
func (d *fixture) createFiles(t tb, folder string, n int) (drive.NodeID, []drive.NodeID) {
	t.Helper()
	all := make([]drive.NodeID, n)
	for i := range all {
		all[i] = d.put(t, fmt.Sprintf("%s/f%d", folder, i), fmt.Sprint("text ", i%5))
	}
	return d.at(t, folder), all
}

func (d *fixture) mkdir(t tb, at string) drive.NodeID {
	t.Helper()
	parent, base, _ := treetest.Path(t, at).Split()
	if _, err := d.files.Mkdir(t.Context(), d.who, files.Mkdir{Path: parent, Parents: true, Name: base}); err != nil {
		t.Fatal(err)
	}
	return d.at(t, at)
}

func (d *fixture) at(t tb, at string) drive.NodeID {
	t.Helper()
	n, err := d.files.GetByPath(t.Context(), d.who, drive.Address{Path: treetest.Path(t, at)})
	if err != nil {
		t.Fatalf("get %s: %v", at, err)
	}
	return n.ID
}

// list returns the paths of all live nodes.
func (d *fixture) list(t tb) []string {
	t.Helper()
	all := d.listBelow(t, d.root)
	slices.Sort(all)
	return all
}

func (d *fixture) listBelow(t tb, id drive.NodeID) (all []string) {
	t.Helper()
	page, err := d.files.Children(t.Context(), d.who, id, tree.List{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range page.Items {
		all = append(all, n.Path)
		if n.Type == tree.TypeFolder {
			all = append(all, d.listBelow(t, n.ID)...)
		}
	}
	return all
}

func (d *fixture) create(t tb, in bulk.Request) bulk.Operation {
	t.Helper()
	o, err := d.Create(t.Context(), d.who, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// dyingContext is a context that ends after a number of checks, like a process that dies between
// two transactions.
type dyingContext struct {
	context.Context
	mu   sync.Mutex
	left int
}

func (d *dyingContext) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left < 0 {
		return context.Canceled
	}
	return nil
}

// finish runs an operation to its end with repeated simulated crashes.
func (d *fixture) finish(t tb, id drive.OperationID) bulk.Operation {
	t.Helper()
	for lives := 2; lives < 10_000; lives++ {
		d.balance(t)
		o, err := d.Get(t.Context(), d.who, id)
		if err != nil {
			t.Fatal(err)
		}
		if o.Done > o.Total || o.Failed > o.Done {
			t.Errorf("progress is %+v", o)
		}
		if o.State != bulk.Running {
			return o
		}
		progress, err := d.Run(&dyingContext{Context: t.Context(), left: lives % 60}, id)
		if err != nil && !drive.IsKind(err, drive.Unavailable) {
			t.Fatal(err)
		}
		if progress == bulk.Blocked {
			d.finishAll(t, id)
		}
	}
	t.Fatal("an operation does not end")
	return bulk.Operation{}
}

// finishAll runs all other operations to their ends.
func (d *fixture) finishAll(t tb, but drive.OperationID) {
	t.Helper()
	running, err := d.ListRunning(t.Context(), drive.OperationID{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range running {
		if id == but {
			continue
		}
		if _, err := d.Run(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}

func (d *fixture) undo(t tb, id drive.OperationID) bulk.Operation {
	t.Helper()
	o, err := d.Undo(t.Context(), d.who, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d.finish(t, o.ID)
}

func condition(t tb, o bulk.Operation, state bulk.State, done, failed, total int64) {
	t.Helper()
	if o.State != state || o.Done != done || o.Failed != failed || o.Total != total {
		t.Errorf("the operation is %s, %d done, %d failed, %d in all; want %s, %d, %d, %d", o.State, o.Done, o.Failed, o.Total, state, done, failed, total)
	}
}

func (d *fixture) codes(t tb, id drive.OperationID) (codes []string) {
	t.Helper()
	for at, more := "", true; more; more = at != "" {
		some, next, err := d.Failures(t.Context(), d.who, id, at, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range some {
			codes = append(codes, f.Path+" "+f.Code)
		}
		at = next
	}
	return codes
}

// balance checks the invariants: Q1, B2, node counts, hidden nodes belong to running operations,
// and the operations' counters add up.
func (d *fixture) balance(t tb) {
	t.Helper()
	activitytest.Check(t, d.db, d.who.Account)
	var finished, other, sum, count, nodes, wrongRefs, orphans, wrong, lost int64
	if err := d.db.QueryRow(t.Context(), `SELECT l.finished, l.unfinished + l.reserved, t.node_count,
		(SELECT COALESCE(SUM(size), 0) FROM versions WHERE account_id = l.account_id),
		(SELECT COUNT(*) - 1 FROM nodes WHERE account_id = l.account_id),
		(SELECT COUNT(*) FROM blobs b WHERE b.refs <> (SELECT COUNT(*) FROM versions v WHERE v.blob_id = b.id)),
		(SELECT COUNT(*) FROM nodes n WHERE n.operation_id IS NOT NULL AND NOT EXISTS
			(SELECT 1 FROM operations o WHERE o.id = n.operation_id AND o.state = 'running')),
		(SELECT COUNT(*) FROM bulks b WHERE b.filled = 0 AND (b.failed <> (SELECT COALESCE(SUM(i.failed), 0) FROM bulk_items i WHERE i.bulk_id = b.id)
			OR b.total - b.done <> (SELECT COALESCE(SUM(i.unsettled - i.failed), 0) FROM bulk_items i WHERE i.bulk_id = b.id))),
		(SELECT COUNT(*) FROM bulk_items i WHERE NOT EXISTS (SELECT 1 FROM bulks b WHERE b.id = i.bulk_id))
		FROM ledgers l JOIN trees t ON t.account_id = l.account_id WHERE l.account_id = ?`, d.who.Account).
		Scan(&finished, &other, &count, &sum, &nodes, &wrongRefs, &orphans, &wrong, &lost); err != nil {
		t.Fatal(err)
	}
	if finished != sum || other != 0 {
		t.Errorf("Q1: finished is %d, the versions have %d bytes; unfinished + reserved is %d", finished, sum, other)
	}
	if count != nodes || wrongRefs != 0 || orphans != 0 {
		t.Errorf("node_count is %d of %d; %d wrong references; %d nodes belong to nothing that runs", count, nodes, wrongRefs, orphans)
	}
	if wrong != 0 || lost != 0 {
		t.Errorf("the rows of %d operations do not add up; %d pieces belong to none", wrong, lost)
	}
}

func wantKind(t tb, err error, kind drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, kind) {
		t.Errorf("got %v, want an error of kind %v", err, kind)
	}
}

var key = vault.NewKey()

var errDied = errors.New("the process died")
