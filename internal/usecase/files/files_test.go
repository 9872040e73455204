package files_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/activity/activitytest"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/files"
)

// fixture is a user with a drive, on a real database and directory.
type fixture struct {
	*files.Files
	expiry  *files.Expiry
	links   *files.Links
	db      *sqldb.DB
	tree    *tree.Tree
	store   blob.Store
	users   *account.Users
	who     drive.Who
	root    drive.NodeID
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

func newFixture(t testing.TB, opt files.Options) *fixture {
	t.Helper()
	return newFixtureWithLimits(t, tree.Options{}, opt)
}

// newFixtureWithLimits is newFixture with limits of the tree.
func newFixtureWithLimits(t testing.TB, limits tree.Options, opt files.Options) *fixture {
	t.Helper()
	db := sqldbtest.Open(t)
	d := newFixtureIn(t, db, treetest.Store(t), limits, opt)
	t.Cleanup(func() { activitytest.Check(t, db, d.who.Account) })
	return d
}

var cheap = account.Options{Cost: treetest.Cheap}

func newFixtureAt(t tb, db *sqldb.DB, store blob.Store, opt files.Options) *fixture {
	t.Helper()
	return newFixtureIn(t, db, store, tree.Options{}, opt)
}

func newFixtureIn(t tb, db *sqldb.DB, store blob.Store, limits tree.Options, opt files.Options) *fixture {
	t.Helper()
	d := &fixture{db: db, store: store, now: time.UnixMilli(1_800_000_000_000)}
	now := func() time.Time { return d.now }
	limits.Now, limits.KeepVersions, limits.OnEffect = now, 2, activity.New(activity.Options{DB: db, Now: now}).RecordNode
	d.tree = tree.New(limits)
	d.users = account.NewUsers(db, account.NewAuth(db, cheap), cheap)
	opt.DB, opt.Tree, opt.Store, opt.Now = db, d.tree, store, now
	opt.OnStart = func(id drive.OperationID) { d.started = append(d.started, id) }
	d.Files = files.New(opt)
	d.links = files.NewLinks(d.Files, files.LinkOptions{Epochs: d.users})
	d.expiry = files.NewExpiry(d.Files, files.ExpiryOptions{TrashKeep: 24 * time.Hour})
	made := treetest.New(t, d.drive(), d.users, "")
	d.who, d.root = made.Who, made.Root
	return d
}

// drive returns the drive of the fixture.
func (f *fixture) drive() treetest.Drive {
	return treetest.Drive{DB: f.db, Tree: f.tree, Store: f.store, Who: f.who, Root: f.root}
}

func (f *fixture) write(t tb, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	treetest.Write(t, f.db, fn)
}

func (f *fixture) limit(t tb, total drive.ByteSize) {
	t.Helper()
	f.drive().Limit(t, total)
}

// tryPut stores a file as an upload does, creates missing folders, and replaces an existing file.
func (f *fixture) tryPut(t tb, at, text string) (tree.Node, error) {
	t.Helper()
	return f.drive().Put(t, at, text, tree.File{Conflict: drive.ConflictReplace, Mime: "text/plain"})
}

func (f *fixture) put(t tb, at, text string) tree.Node {
	t.Helper()
	n, err := f.tryPut(t, at, text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (f *fixture) get(t tb, at string) files.NodeView {
	t.Helper()
	n, err := f.GetByPath(t.Context(), f.who, drive.Address{Path: treetest.Path(t, at)})
	if err != nil {
		t.Fatalf("get %s: %v", at, err)
	}
	return n
}

// ls lists the paths of all live nodes, with the sizes of files.
func (f *fixture) ls(t tb) []string {
	t.Helper()
	return f.lsBelow(t, f.root)
}

func (f *fixture) lsBelow(t tb, id drive.NodeID) (all []string) {
	t.Helper()
	page, err := f.Children(t.Context(), f.who, id, tree.List{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range page.Items {
		all = append(all, n.Path)
		if n.Type == tree.TypeFolder {
			all = append(all, f.lsBelow(t, n.ID)...)
		}
	}
	slices.Sort(all)
	return all
}

func (f *fixture) read(t tb, id drive.NodeID) string {
	t.Helper()
	open, err := f.Contents.Open(t.Context(), f.who, id, drive.VersionID{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(io.NewSectionReader(open, 0, int64(open.Size())))
	if err = errors.Join(err, open.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkInvariants checks Q1, B2 and the count of nodes.
func (f *fixture) checkInvariants(t tb) {
	t.Helper()
	f.checkInvariantsOf(t, true)
}

// checkInvariantsOf is checkInvariants for an account whose operations may have been canceled.
func (f *fixture) checkInvariantsOf(t tb, owned bool) {
	t.Helper()
	var finished, other, sum, count, nodes, wrongRefs, orphans int64
	if err := f.db.QueryRow(t.Context(), `SELECT l.finished, l.unfinished + l.reserved, t.node_count,
		(SELECT COALESCE(SUM(size), 0) FROM versions WHERE account_id = l.account_id),
		(SELECT COUNT(*) - 1 FROM nodes WHERE account_id = l.account_id),
		(SELECT COUNT(*) FROM blobs b WHERE b.refs <> (SELECT COUNT(*) FROM versions v WHERE v.blob_id = b.id)),
		(SELECT COUNT(*) FROM nodes n WHERE n.operation_id IS NOT NULL AND NOT EXISTS
			(SELECT 1 FROM operations o WHERE o.id = n.operation_id AND o.state = 'running'))
		FROM ledgers l JOIN trees t ON t.account_id = l.account_id WHERE l.account_id = ?`, f.who.Account).
		Scan(&finished, &other, &count, &sum, &nodes, &wrongRefs, &orphans); err != nil {
		t.Fatal(err)
	}
	if finished != sum || other != 0 {
		t.Errorf("Q1: finished is %d, the versions have %d bytes; unfinished + reserved is %d", finished, sum, other)
	}
	if count != nodes {
		t.Errorf("node_count is %d, there are %d", count, nodes)
	}
	if wrongRefs != 0 {
		t.Errorf("B2: %d blobs have a wrong number of references", wrongRefs)
	}
	if owned && orphans != 0 {
		t.Errorf("%d nodes belong to an operation that does not run", orphans)
	}
	f.checkSums(t)
}

// checkSums compares the sum of each folder with its children and their sums.
func (f *fixture) checkSums(t tb) {
	t.Helper()
	var wrong int
	if err := f.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM (SELECT s.folder_id FROM folder_sums s JOIN nodes f ON f.id = s.folder_id
		LEFT JOIN nodes n ON n.parent_id = s.folder_id AND n.trashed_at = 0 LEFT JOIN versions v ON v.id = n.version_id
		LEFT JOIN folder_sums b ON b.folder_id = n.id WHERE f.account_id = ? GROUP BY s.folder_id, s.files, s.folders, s.size
		HAVING s.files <> COALESCE(SUM(CASE n.type WHEN 'file' THEN 1 ELSE b.files END), 0)
		OR s.folders <> COALESCE(SUM(CASE n.type WHEN 'folder' THEN 1 + b.folders ELSE 0 END), 0)
		OR s.size <> COALESCE(SUM(CASE n.type WHEN 'file' THEN v.size ELSE b.size END), 0)) off`, f.who.Account).Scan(&wrong); err != nil || wrong != 0 {
		t.Errorf("N7: the sums of %d folders are wrong, %v", wrong, err)
	}
	var without int
	if err := f.db.QueryRow(t.Context(), `SELECT (SELECT COUNT(*) FROM folder_sums s WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = s.folder_id))
		+ (SELECT COUNT(*) FROM nodes n WHERE n.account_id = ? AND n.type = 'folder' AND NOT EXISTS (SELECT 1 FROM folder_sums s WHERE s.folder_id = n.id))`,
		f.who.Account).Scan(&without); err != nil || without != 0 {
		t.Errorf("N7: %d sums without a folder, or folders without one, %v", without, err)
	}
}

func wantKind(t tb, err error, kind drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, kind) {
		t.Errorf("got %v, want an error of kind %v", err, kind)
	}
}
