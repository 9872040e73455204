package tree_test

import (
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// fixture is a tree of one account in a real database, with a manual clock.
type fixture struct {
	db      *sqldb.DB
	tree    *tree.Tree
	account drive.AccountID
	root    drive.NodeID
	now     time.Time
}

type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Context() context.Context
}

func newFixture(t testing.TB, opt tree.Options) *fixture {
	t.Helper()
	return newFixtureIn(t, sqldbtest.Open(t), opt)
}

func newFixtureIn(t tb, db *sqldb.DB, opt tree.Options) *fixture {
	t.Helper()
	g := &fixture{db: db, account: drive.NewID[drive.AccountID](), now: time.UnixMilli(1_800_000_000_000)}
	opt.Now = func() time.Time { return g.now }
	g.tree = tree.New(opt)
	g.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if _, err = tx.Exec(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, 0)", g.account); err == nil {
			g.root, err = g.tree.Create(ctx, tx, g.account)
		}
		return err
	})
	return g
}

func (f *fixture) try(t tb, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	t.Helper()
	return f.db.Write(t.Context(), fn)
}

func (f *fixture) write(t tb, fn func(ctx context.Context, tx *sqldb.Tx) error) {
	t.Helper()
	if err := f.try(t, fn); err != nil {
		t.Fatal(err)
	}
}

// file creates content with a blob row and returns it with its target.
func file(ctx context.Context, tx *sqldb.Tx, p tree.Place, size drive.ByteSize) (tree.File, error) {
	id := drive.NewID[drive.BlobID]()
	_, err := tx.Exec(ctx, `INSERT INTO blobs (id, file, algo, digest, size, part_size, crc32, refs, created_at, scrubbed_at, parts)
		VALUES (?, ?, 'blake3', ?, ?, 0, 0, 1, 0, 0, '')`, id, id, id, size)
	return tree.File{
		Parent: p.Parent, Name: p.Name, Conflict: p.Conflict, Base: p.Base,
		Blob: id, Size: size, Mime: "text/plain", By: drive.NewID[drive.UserID](),
	}, err
}

func (f *fixture) tryPut(t tb, p tree.Place, size drive.ByteSize) (placed tree.PutResult, err error) {
	t.Helper()
	err = f.try(t, func(ctx context.Context, tx *sqldb.Tx) error {
		content, err := file(ctx, tx, p, size)
		if err == nil {
			placed, err = f.tree.PutFile(ctx, tx, f.account, content)
		}
		return err
	})
	return placed, err
}

func (f *fixture) put(t tb, parent drive.NodeID, name drive.Name) tree.Node {
	t.Helper()
	placed, err := f.tryPut(t, tree.Place{Parent: parent, Name: name}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return placed.Node
}

func (f *fixture) mkdir(t tb, path string) (n tree.Node) {
	t.Helper()
	parsed, err := drive.ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = f.tree.EnsureFolders(ctx, tx, f.account, parsed)
		return err
	})
	return n
}

func (f *fixture) edit(t tb, id drive.NodeID, e tree.Edit) (n tree.Node, err error) {
	t.Helper()
	if e.Extent, err = f.tree.Extent(t.Context(), f.db, id); err != nil {
		t.Fatal(err)
	}
	err = f.try(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = f.tree.Edit(ctx, tx, f.account, id, e)
		return err
	})
	return n, err
}

func (f *fixture) trash(t tb, id drive.NodeID) (n tree.Node, err error) {
	t.Helper()
	err = f.try(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = f.tree.Trash(ctx, tx, f.account, id, 0)
		return err
	})
	return n, err
}

func (f *fixture) restore(t tb, id drive.NodeID, r tree.Restore) (n tree.Node, err error) {
	t.Helper()
	err = f.try(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = f.tree.Restore(ctx, tx, f.account, id, r)
		return err
	})
	return n, err
}

// purge deletes a node permanently, limit rows at a time, and returns the dropped versions.
func (f *fixture) purge(t tb, id drive.NodeID, limit int) (dropped []tree.Version, err error) {
	t.Helper()
	err = f.try(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := f.tree.MarkForPurge(ctx, tx, f.account, id, tree.Expect{}, drive.NewID[drive.OperationID]())
		return err
	})
	for done := err != nil; !done; {
		f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			p, err := f.tree.PurgeStep(ctx, tx, f.account, id, limit)
			dropped, done = append(dropped, p.Versions...), p.Done
			return err
		})
	}
	return dropped, err
}

func (f *fixture) path(t tb, id drive.NodeID) (string, bool) {
	t.Helper()
	p, live, err := f.tree.PathOf(t.Context(), f.db, id)
	if err != nil {
		t.Fatal(err)
	}
	return p.String(), live
}

func wantKind(t testing.TB, err error, kind drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, kind) {
		t.Errorf("got %v, want an error of kind %v", err, kind)
	}
}
