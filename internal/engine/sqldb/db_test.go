package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

func put(key, value string) func(context.Context, *sqldb.Tx) error {
	return func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO meta (name, value) VALUES (?, ?)", key, value)
		return err
	}
}

func get(t *testing.T, db *sqldb.DB, key string) (value string, ok bool) {
	t.Helper()
	err := db.QueryRow(t.Context(), "SELECT value FROM meta WHERE name = ?", key).Scan(&value)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		t.Fatal(err)
	}
	return value, err == nil
}

func TestWriteIsVisibleOnReturn(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	if err := db.Write(t.Context(), put("a", "1")); err != nil {
		t.Fatal(err)
	}
	if v, ok := get(t, db, "a"); !ok || v != "1" {
		t.Fatalf("got %q, %v", v, ok)
	}
}

func TestFailedWriteDoesNotAffectItsGroup(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	boom := errors.New("boom")
	hold, entered := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { // keeps the writer busy, so that the others share one group
		_ = db.Write(t.Context(), func(context.Context, *sqldb.Tx) error { close(entered); <-hold; return nil })
	})
	<-entered
	errs := make([]error, 20)
	for i := range errs {
		all.Go(func() {
			errs[i] = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				if err := put(fmt.Sprint(i), "x")(ctx, tx); err != nil || i%2 == 0 {
					return err
				}
				if i%4 == 1 {
					panic(boom)
				}
				return boom
			})
		})
	}
	close(hold)
	all.Wait()
	for i, err := range errs {
		_, ok := get(t, db, fmt.Sprint(i))
		if good := i%2 == 0; good != (err == nil) || good != ok {
			t.Errorf("write %d: error %v, row there: %v", i, err, ok)
		}
	}
}

func TestAfterCommitRunsOnlyWhenCommitted(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	ran := 0
	err := db.Write(t.Context(), func(_ context.Context, tx *sqldb.Tx) error {
		tx.AfterCommit(func() { ran++ })
		return errors.New("no")
	})
	if err == nil || ran != 0 {
		t.Fatalf("error %v, ran %d times", err, ran)
	}
	if err := db.Write(t.Context(), func(_ context.Context, tx *sqldb.Tx) error {
		tx.AfterCommit(func() { ran++ })
		return nil
	}); err != nil || ran != 1 {
		t.Fatalf("error %v, ran %d times", err, ran)
	}
}

func TestGroupCommitShares(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "the server shares syncs by itself")
	db := sqldbtest.Open(t)
	const writes = 400
	hold, entered := make(chan struct{}), make(chan struct{})
	var all, begun sync.WaitGroup
	all.Go(func() { // keeps the writer busy until all the others have begun
		_ = db.Write(t.Context(), func(context.Context, *sqldb.Tx) error { close(entered); <-hold; return errors.New("only a hold") })
	})
	<-entered
	begun.Add(writes)
	for i := range writes {
		all.Go(func() {
			begun.Done()
			if err := db.Write(t.Context(), put(fmt.Sprint(i), "x")); err != nil {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	close(hold)
	all.Wait()
	if got := db.Stats().Writes.Load(); got != writes {
		t.Errorf("%d writes, want %d", got, writes)
	}
	if got := db.Stats().Commits.Load(); got > writes/2 {
		t.Errorf("%d commits for %d concurrent writes: nothing was shared", got, writes)
	}
}

func TestDuplicateIsRecognised(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	if err := db.Write(t.Context(), put("a", "1")); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), put("a", "2")); !sqldb.IsDuplicate(err) {
		t.Fatalf("got %v", err)
	}
}

func TestWriteAfterCloseIsRefused(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), put("a", "1")); !drive.IsKind(err, drive.Stopping) {
		t.Fatalf("got %v", err)
	}
}

func TestCloseLeavesOneFile(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "it is about the file")
	path := filepath.Join(t.TempDir(), "smartdrive.db")
	db, err := sqldb.Open(t.Context(), sqldb.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), put("a", "1")); err != nil {
		t.Fatal(err)
	}
	if v, ok := get(t, db, "a"); !ok || v != "1" {
		t.Fatalf("got %q, %v", v, ok)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, beside := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(path + beside); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the close there is %s: %v", filepath.Base(path+beside), err)
		}
	}
}

func TestTheFileIsPrivate(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "it is about the file")
	if runtime.GOOS == "windows" {
		t.Skip("no modes there")
	}
	path := filepath.Join(t.TempDir(), "smartdrive.db")
	db := sqldbtest.OpenWith(t, sqldb.Options{Path: path})
	if err := db.Write(t.Context(), put("a", "1")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", filepath.Base(name), info.Mode(), err)
		}
	}
}
