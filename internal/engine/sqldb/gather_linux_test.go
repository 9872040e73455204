package sqldb_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/disktest"
)

// crowded opens a database with memory for ten pages: transactions write more pages to the log
// before the commit, read them there, and write some again.
func crowded(t *testing.T, path string) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Options{Path: path, Connector: func(dsn string) (driver.Connector, error) {
		return sqldb.NewConnector(strings.Replace(dsn, "cache_size(-8192)", "cache_size(10)", 1))
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// rows are the rows of a table by name.
type rows map[string]string

func (want rows) check(t *testing.T, db *sqldb.DB) {
	t.Helper()
	got := rows{}
	found, err := db.Query(t.Context(), "SELECT name, value FROM meta")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var name, value string
		if err := found.Scan(&name, &value); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "row ") {
			got[name] = value
		}
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	var sound string
	if err := db.QueryRow(t.Context(), "PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		t.Fatalf("the database is damaged: %s, %v", sound, err)
	}
}

// some changes random rows, and reads one that it may have changed before.
func (want rows) some(ctx context.Context, tx *sqldb.Tx, r *rand.Rand) error {
	for range 1 + r.IntN(30) {
		name := fmt.Sprint("row ", r.IntN(200))
		if r.IntN(4) == 0 {
			delete(want, name)
			if _, err := tx.Exec(ctx, "DELETE FROM meta WHERE name = ?", name); err != nil {
				return err
			}
			continue
		}
		want[name] = strings.Repeat(fmt.Sprint(r.IntN(10)), r.IntN(6000))
		if _, err := tx.Exec(ctx, "REPLACE INTO meta (name, value) VALUES (?, ?)", name, want[name]); err != nil {
			return err
		}
		names := slices.Sorted(maps.Keys(want))
		name = names[r.IntN(len(names))]
		var value string
		if err := tx.QueryRow(ctx, "SELECT value FROM meta WHERE name = ?", name).Scan(&value); err != nil || value != want[name] {
			return fmt.Errorf("%s has %d bytes, want %d: %w", name, len(value), len(want[name]), err)
		}
	}
	return nil
}

var errUndo = errors.New("undo it")

// TestPagesAreWrittenTogether: after any rollback of a transaction or a part of it, the database
// contains exactly the committed rows.
func TestPagesAreWrittenTogether(t *testing.T) {
	t.Parallel()
	for seed := range depth.Pick(3, 8, 100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(seed), 148))
			path := filepath.Join(t.TempDir(), "database")
			db, want := crowded(t, path), rows{}
			for range 30 {
				next := maps.Clone(want)
				err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					for range 1 + r.IntN(3) {
						undone := maps.Clone(next)
						failed, err := tx.Try(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
							return errors.Join(undone.some(ctx, tx, r), errUndo)
						})
						if err != nil || failed.Error() != errUndo.Error() {
							return errors.Join(failed, err)
						}
						if err := next.some(ctx, tx, r); err != nil {
							return err
						}
					}
					if r.IntN(3) == 0 {
						return errUndo
					}
					return nil
				})
				switch {
				case err == nil:
					want = next
				case err != errUndo: //nolint:errorlint // nothing else
					t.Fatal(err)
				}
				want.check(t, db)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			want.check(t, crowded(t, path))
		})
	}
}

// TestRolledBackPagesAreNotWrittenLate: the pages of a rolled back transaction do not overwrite a
// later commit of another connection.
func TestRolledBackPagesAreNotWrittenLate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "database")
	if err := crowded(t, path).Close(); err != nil { // the file system of the writer is known now
		t.Fatal(err)
	}
	open := func() (do func(statement string)) {
		c, err := sqldb.NewConnector("file:" + path + "?_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_pragma=cache_size(20)&vfs=smartdrive-datasync")
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(c)
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { _ = db.Close() })
		return func(statement string) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(statement, err)
			}
		}
	}
	first, second := open(), open()
	first("CREATE TABLE large (x)")
	first("CREATE TABLE small (x)")
	first("INSERT INTO small VALUES (1)")
	first("PRAGMA wal_checkpoint(TRUNCATE)")
	first("UPDATE small SET x = 2")
	first("BEGIN IMMEDIATE")
	first("INSERT INTO large VALUES (randomblob(200000))")
	first("ROLLBACK")
	for range 60 {
		second("INSERT INTO large VALUES (randomblob(4000))")
	}
	first("UPDATE small SET x = 3")
	db := crowded(t, path)
	rows{}.check(t, db)
	var n, size int
	if err := db.QueryRow(t.Context(), "SELECT COUNT(*), SUM(LENGTH(x)) FROM large").Scan(&n, &size); err != nil || n != 60 || size != 60*4000 {
		t.Errorf("%d rows of %d bytes, %v", n, size, err)
	}
}

// TestATransactionTooLargeForTheDisk: a transaction that does not fit on the disk leaves nothing,
// and smaller ones succeed afterwards.
func TestATransactionTooLargeForTheDisk(t *testing.T) {
	t.Parallel()
	disk := disktest.New(t, "4096")
	db, want := crowded(t, filepath.Join(disk.Root, "database")), rows{}
	add := func(name string, size int) func(context.Context, *sqldb.Tx) error {
		return func(ctx context.Context, tx *sqldb.Tx) error { return put(name, strings.Repeat("x", size))(ctx, tx) }
	}
	if err := db.Write(t.Context(), add("row first", 100)); err != nil {
		t.Fatal(err)
	}
	want["row first"] = strings.Repeat("x", 100)
	rest := filepath.Join(disk.Root, "rest")
	if err := os.WriteFile(rest, make([]byte, disktest.Size), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	full, err := os.Stat(rest)
	if err == nil {
		err = os.Truncate(rest, full.Size()-1<<20)
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
			for i := 0; i < 2000 && err == nil; i++ { // more than the log of earlier transactions has room for
				err = add(fmt.Sprint("row large ", i), 5000)(ctx, tx)
			}
			return err
		})
		if !drive.IsKind(err, drive.DiskFull) {
			t.Fatalf("10 MB on a disk with room for 1 MiB: %v", err)
		}
		want.check(t, db)
		name := fmt.Sprint("row small ", n)
		if err := db.Write(t.Context(), add(name, 1000)); err != nil {
			t.Fatalf("a small row after it: %v", err)
		}
		want[name] = strings.Repeat("x", 1000)
		want.check(t, db)
	}
}
