package tree_test

import (
	"context"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
)

// garden is a tree of one account in a real database, with a clock of its own.
type garden struct {
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

func plant(t testing.TB, opt tree.Options) *garden {
	t.Helper()
	return plantIn(t, sqldbtest.Open(t), opt)
}

func plantIn(t tb, db *sqldb.DB, opt tree.Options) *garden {
	t.Helper()
	g := &garden{db: db, account: drive.NewID[drive.AccountID](), now: time.UnixMilli(1_800_000_000_000)}
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

func (g *garden) try(t tb, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	t.Helper()
	return g.db.Write(t.Context(), fn)
}

func (g *garden) write(t tb, fn func(ctx context.Context, tx *sqldb.Tx) error) {
	t.Helper()
	if err := g.try(t, fn); err != nil {
		t.Fatal(err)
	}
}

// file makes content with a blob row of its own and says where it shall go.
func file(ctx context.Context, tx *sqldb.Tx, p tree.Place, size drive.ByteSize) (tree.File, error) {
	id := drive.NewID[drive.BlobID]()
	_, err := tx.Exec(ctx, `INSERT INTO blobs (id, file, algo, digest, size, part_size, crc32, refs, created_at, scrubbed_at, parts)
		VALUES (?, ?, 'blake3', ?, ?, 0, 0, 1, 0, 0, '')`, id, id, id, size)
	return tree.File{
		Parent: p.Parent, Name: p.Name, Conflict: p.Conflict, Base: p.Base,
		Blob: id, Size: size, Mime: "text/plain", By: drive.NewID[drive.UserID](),
	}, err
}

func (g *garden) tryPut(t tb, p tree.Place, size drive.ByteSize) (placed tree.Placed, err error) {
	t.Helper()
	err = g.try(t, func(ctx context.Context, tx *sqldb.Tx) error {
		f, err := file(ctx, tx, p, size)
		if err == nil {
			placed, err = g.tree.PutFile(ctx, tx, g.account, f)
		}
		return err
	})
	return placed, err
}

func (g *garden) put(t tb, parent drive.NodeID, name drive.Name) tree.Node {
	t.Helper()
	placed, err := g.tryPut(t, tree.Place{Parent: parent, Name: name}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return placed.Node
}

func (g *garden) mkdir(t tb, path string) (n tree.Node) {
	t.Helper()
	parsed, err := drive.ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	g.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = g.tree.EnsureFolders(ctx, tx, g.account, parsed)
		return err
	})
	return n
}

func (g *garden) edit(t tb, id drive.NodeID, e tree.Edit) (n tree.Node, err error) {
	t.Helper()
	if e.Below, err = g.tree.Extent(t.Context(), g.db, id); err != nil {
		t.Fatal(err)
	}
	err = g.try(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = g.tree.Edit(ctx, tx, g.account, id, e)
		return err
	})
	return n, err
}

func (g *garden) trash(t tb, id drive.NodeID) (n tree.Node, err error) {
	t.Helper()
	err = g.try(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = g.tree.Trash(ctx, tx, g.account, id, 0)
		return err
	})
	return n, err
}

func (g *garden) restore(t tb, id drive.NodeID, r tree.Restore) (n tree.Node, err error) {
	t.Helper()
	err = g.try(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = g.tree.Restore(ctx, tx, g.account, id, r)
		return err
	})
	return n, err
}

// purge deletes for good, limit rows at a time, and returns what was dropped.
func (g *garden) purge(t tb, id drive.NodeID, limit int) (dropped []tree.Version, err error) {
	t.Helper()
	err = g.try(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := g.tree.Doom(ctx, tx, g.account, id, 0, drive.NewID[drive.OperationID]())
		return err
	})
	for done := err != nil; !done; {
		g.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			p, err := g.tree.PurgeStep(ctx, tx, g.account, id, limit)
			dropped, done = append(dropped, p.Versions...), p.Done
			return err
		})
	}
	return dropped, err
}

func (g *garden) path(t tb, id drive.NodeID) (string, bool) {
	t.Helper()
	p, live, err := g.tree.PathOf(t.Context(), g.db, id)
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
