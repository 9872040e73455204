package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/disktest"
)

// TestCommitSurvivesPowerLoss cuts the power during commits: every acknowledged transaction
// survives, while the log grows and while it is overwritten in place.
func TestCommitSurvivesPowerLoss(t *testing.T) {
	t.Parallel()
	disk := disktest.New(t, "4096")
	db, err := sqldb.Open(t.Context(), sqldb.Options{Path: filepath.Join(disk.Root, "database")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var want []string
	for round := range depth.Pick(4, 6, 40) {
		want = append(want, losePower(t, disk, db, round, want)...)
		if round%2 == 1 { // what comes next is written over what is there
			var busy, pages, done int
			if err := db.QueryRow(t.Context(), "PRAGMA wal_checkpoint(RESTART)").Scan(&busy, &pages, &done); err != nil || busy != 0 || pages == 0 {
				t.Fatalf("checkpoint: %d, %d pages, %v", busy, pages, err)
			}
		}
	}
}

// losePower commits rows, cuts the power after half of them, and checks these and the earlier rows.
// It returns all rows.
func losePower(t *testing.T, disk *disktest.Disk, db *sqldb.DB, round int, want []string) []string {
	t.Helper()
	var early, all sync.WaitGroup
	var added, later []string
	for writer := range 8 {
		half, keys := &early, &added
		if writer%2 == 1 {
			half, keys = &all, &later
		}
		key := func(i int) string { return fmt.Sprintf("%d-%d-%d", round, writer, i) }
		for i := range 5 {
			*keys = append(*keys, key(i))
		}
		half.Go(func() {
			for i := range 5 {
				if err := db.Write(t.Context(), put(key(i), key(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	early.Wait()
	there := disk.CutPower(t)
	defer there.Unmount(t)
	after, err := sqldb.Open(t.Context(), sqldb.Options{Path: filepath.Join(there.Root, "database")})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	for _, k := range append(added, want...) {
		if v, ok := get(t, after, k); !ok || v != k {
			t.Errorf("round %d: %s is %q, %v", round, k, v, ok)
		}
	}
	all.Wait()
	return append(added, later...)
}

// TestDeletesWorkOnFullDisk: any number of rows can be deleted on a full disk. The log uses the
// released space and is checkpointed within it.
func TestDeletesWorkOnFullDisk(t *testing.T) {
	t.Parallel()
	const rows = 3000
	disk := disktest.New(t, "4096")
	ballast := filepath.Join(disk.Root, "ballast")
	if err := os.WriteFile(ballast, make([]byte, sqldb.LogSize+4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sqldb.Open(t.Context(), sqldb.Options{Path: filepath.Join(disk.Root, "database"), OnFull: func() { _ = os.Remove(ballast) }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		for i := 0; i < rows && err == nil; i++ {
			err = put(fmt.Sprint(i), strings.Repeat("x", 1000))(ctx, tx)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(disk.Root, "rest"), make([]byte, disktest.Size), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	full := 0
	for i := range rows {
		remove := func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "DELETE FROM meta WHERE name = ?", fmt.Sprint(i))
			return err
		}
		err := db.Write(t.Context(), remove)
		if drive.IsKind(err, drive.DiskFull) {
			full++
			err = db.Write(t.Context(), remove)
		}
		if err != nil {
			t.Fatalf("row %d, after the disk was full %d times: %v", i, full, err)
		}
	}
	if full != 1 {
		t.Errorf("the disk was full %d times", full)
	}
}
