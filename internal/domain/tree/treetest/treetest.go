// Package treetest creates drives for tests: a user, the user's account with ledger and tree, and
// files stored as an upload stores them.
package treetest

import (
	"context"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/sqldb"
)

// T is the subset of *testing.T, *testing.B and *rapid.T that the helpers need.
type T interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Cheap makes password hashing nearly free in tests.
var Cheap = account.Cost{MemoryKiB: 64, Passes: 1, Threads: 1}

// Drive is the drive of one test user.
type Drive struct {
	DB    *sqldb.DB
	Tree  *tree.Tree
	Store blob.Store

	Who  drive.Who
	Root drive.NodeID
}

// New creates a user with an unlimited account and returns the drive of that account, with the
// database, tree and store of d. An empty name picks a unique one. Errors fail the test.
func New(t T, d Drive, users *account.Users, name string) Drive {
	t.Helper()
	if name == "" {
		name = "u" + drive.NewID[drive.UserID]().String()[14:]
	}
	draft, err := users.Draft(t.Context(), name, "correct horse battery", false)
	if err != nil {
		t.Fatal(err)
	}
	d.Who = drive.Who{User: draft.User().ID, Account: draft.Account()}
	Write(t, d.DB, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if _, err := users.Create(ctx, tx, draft); err != nil {
			return err
		}
		if err := (quota.Ledger{}).Create(ctx, tx, d.Who.Account, nil); err != nil {
			return err
		}
		d.Root, err = d.Tree.Create(ctx, tx, d.Who.Account)
		return err
	})
	return d
}

// Write runs fn in a transaction and fails the test on an error.
func Write(t T, db *sqldb.DB, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	if err := db.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// Limit sets the quota of the drive's account.
func (d Drive) Limit(t T, total drive.ByteSize) {
	t.Helper()
	Write(t, d.DB, func(ctx context.Context, tx *sqldb.Tx) error {
		return quota.Ledger{}.SetTotal(ctx, tx, d.Who.Account, &total)
	})
}

// Path parses a path and fails the test if it is not valid.
func Path(t T, s string) drive.Path {
	t.Helper()
	p, err := drive.ParsePath(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Store returns a local store in a temporary directory of the test.
func Store(t testing.TB) blob.Store {
	t.Helper()
	dir, err := local.Open(t.Context(), local.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir.Blobs
}

// Stored puts text into the store and returns the content row to attach for it.
func Stored(t T, store blob.Store, text string) content.NewContent {
	t.Helper()
	name := "put-1-" + drive.NewID[drive.UploadID]().String()
	part, err := store.Put(t.Context(), name, blob.NewBody(strings.NewReader(text), blob.BodyOptions{Size: drive.ByteSize(len(text))}))
	if err != nil {
		t.Fatal(err)
	}
	return content.NewContent{
		ID: drive.NewID[drive.BlobID](), File: name, Sum: part.Root, Size: part.Size, PartSize: drive.MiB, CRC32: part.CRC32,
		Parts: []byte{}, Aliases: digest.Set{},
	}
}

// Put stores a file with the given text at a path, creates missing folders, and charges the ledger,
// as an upload does. f sets the conflict policy, type and time.
func (d Drive) Put(t T, at, text string, f tree.File) (n tree.Node, err error) {
	t.Helper()
	fresh := Stored(t, d.Store, text)
	parent, base, _ := Path(t, at).Split()
	err = d.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		folder, err := d.Tree.EnsureFolders(ctx, tx, d.Who.Account, parent)
		if err != nil {
			return err
		}
		if err := (quota.Ledger{}).Apply(ctx, tx, d.Who.Account, quota.Move{Finished: fresh.Size}); err != nil {
			return err
		}
		there, _, err := d.Tree.Child(ctx, tx, d.Who.Account, folder.ID, base)
		if err != nil {
			return err
		}
		f.Parent, f.Name, f.Base, f.Size, f.By = folder.ID, base, there.Version, fresh.Size, d.Who.User
		if f.Blob, _, err = (content.Content{}).Attach(ctx, tx, fresh); err != nil {
			return err
		}
		placed, err := d.Tree.PutFile(ctx, tx, d.Who.Account, f)
		if err != nil {
			return err
		}
		n = placed.Node
		return d.drop(ctx, tx, placed.Dropped)
	})
	return n, err
}

// drop releases the contents of deleted versions and subtracts their sizes from the account's
// ledger, as callers of package tree must.
func (d Drive) drop(ctx context.Context, tx *sqldb.Tx, gone []tree.Version) error {
	for _, v := range gone {
		if err := (quota.Ledger{}).Apply(ctx, tx, d.Who.Account, quota.Move{Finished: -v.Size}); err != nil {
			return err
		}
		if err := (content.Content{}).Release(ctx, tx, d.Who.Account, v.Blob); err != nil {
			return err
		}
	}
	return nil
}
