package backup_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/backup"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// flip changes the last byte of a content in a file or in a slot of a pack.
func flip(t *testing.T, dir, name string, size int64) {
	t.Helper()
	shard, _ := blob.ShardOf(name)
	path, at := filepath.Join(dir, "blobs", shard, name), size-1
	if _, err := os.Stat(path); err != nil {
		slot, _ := blob.SlotOf(name)
		path, at = packOf(t, dir, name), slot.First*4096+40+size-1
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// both returns the names of the large and the small content.
func (r *rig) both(t *testing.T) (large, small string) {
	t.Helper()
	return r.scalarOf(t, `SELECT file FROM blobs WHERE size > 12`), r.scalarOf(t, `SELECT file FROM blobs WHERE size = 12`)
}

func sorted(names ...string) []string { return slices.Sorted(slices.Values(names)) }

// B1: a backup verifies checksums, reports and marks damaged contents until they are repaired, and
// keeps its own sound copies.
func TestBackupReportsDamage(t *testing.T) {
	t.Parallel()
	for _, copies := range []bool{false, true} {
		t.Run(fmt.Sprintf("copies %v", copies), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, uploadtest.Options{})
			large, small := r.both(t)
			before, after := filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
			opt := r.options()
			opt.Copy = true
			r.backup(t, before, opt)
			flip(t, r.Dir, large, int64(len(r.data)))
			flip(t, r.Dir, small, 12)
			opt.Copy = copies
			for range 2 { // the second run finds files of the right sizes
				if res := r.backup(t, after, opt); !slices.Equal(sorted(res.Damaged...), sorted(large, small)) {
					t.Errorf("damaged are %v, want %v", res.Damaged, sorted(large, small))
				}
			}
			if n := r.scalarOf(t, `SELECT COUNT(*) FROM blobs WHERE damaged_at > 0`); n != "2" {
				t.Errorf("%s are marked", n)
			}
			dir := t.TempDir()
			if res, err := backup.Restore(t.Context(), after, site(dir), false, opt); err != nil || len(res.Damaged) != 2 {
				t.Errorf("restored what is damaged: %+v, %v", res, err)
			}

			if res := r.backup(t, before, opt); len(res.Damaged) != 2 || res.Moved != (backup.Transferred{}) {
				t.Errorf("beside sound copies: %+v", res)
			}
			dir = t.TempDir()
			res, err := backup.Restore(t.Context(), before, site(dir), false, opt)
			if err != nil || len(res.Damaged)+len(res.Missing) > 0 {
				t.Errorf("restored what is sound: %+v, %v", res, err)
			}
			r.wantSound(t, dir)
		})
	}
}

func (r *rig) wantSound(t *testing.T, dir string) {
	t.Helper()
	o := open(t, dir)
	if a, err := o.read(t, r.who, "/a"); err != nil || !bytes.Equal(a, r.data) {
		t.Errorf("/a: %d bytes, %v", len(a), err)
	}
	if b, err := o.read(t, r.who, "/b"); string(b) != "a small file" {
		t.Errorf("/b: %q, %v", b, err)
	}
}

// Existing contents are verified, too, and damaged ones are moved aside.
func TestRestoreReplacesDamagedContents(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	large, small := r.both(t)
	dest, dir := filepath.Join(t.TempDir(), "backup"), t.TempDir()
	opt := r.options()
	opt.Copy = true
	r.backup(t, dest, opt)
	for range 2 {
		if res, err := backup.Restore(t.Context(), dest, site(dir), true, opt); err != nil || len(res.Damaged)+len(res.Missing) > 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		flip(t, dir, large, int64(len(r.data)))
		flip(t, dir, small, 12)
	}
	if res, err := backup.Restore(t.Context(), dest, site(dir), true, opt); err != nil || res.Moved.Copied != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	r.wantSound(t, dir)
	if aside := files(t, filepath.Join(dir, "quarantine")); aside[large] != int64(len(r.data)) || aside[small] != 12 {
		t.Errorf("aside are %v", aside)
	}
}

// A damaged copy in the backup stays until Verify replaces it. Damage on both sides replaces
// nothing.
func TestVerifyReplacesDamagedCopies(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	large, small := r.both(t)
	dest := filepath.Join(t.TempDir(), "backup")
	opt := r.options()
	opt.Copy, opt.Verify = true, true
	r.backup(t, dest, opt)
	flip(t, dest, large, int64(len(r.data)))
	flip(t, dest, small, 12)
	if res := r.backup(t, dest, opt); res.Moved != (backup.Transferred{Copied: 2, Bytes: drive.ByteSize(len(r.data)) + 12}) || len(res.Damaged) > 0 {
		t.Errorf("%+v", res)
	}
	dir := t.TempDir()
	if res, err := backup.Restore(t.Context(), dest, site(dir), false, opt); err != nil || len(res.Damaged) > 0 {
		t.Errorf("%+v, %v", res, err)
	}
	r.wantSound(t, dir)
}

// A lost content is reported by each run, and a copy from an earlier run is kept.
func TestLaterLossIsReportedAndCopyKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	large, small := r.both(t)
	dest := filepath.Join(t.TempDir(), "backup")
	opt := r.options()
	opt.Copy = true
	r.backup(t, dest, opt)
	shard, _ := blob.ShardOf(large)
	for _, path := range []string{packOf(t, r.Dir, small), filepath.Join(r.Dir, "blobs", shard, large)} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if res := r.backup(t, dest, opt); !slices.Equal(sorted(res.Missing...), sorted(large, small)) {
		t.Errorf("missing are %v", res.Missing)
	}
	dir := t.TempDir()
	if res, err := backup.Restore(t.Context(), dest, site(dir), false, opt); err != nil || len(res.Missing)+len(res.Damaged) > 0 {
		t.Errorf("%+v, %v", res, err)
	}
	r.wantSound(t, dir)
}
