package backup_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/backup"
	"example.org/smartdrive/internal/usecase/unlink"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// contentFiles counts the content files below a directory.
func contentFiles(t *testing.T, dir string) int {
	t.Helper()
	return len(files(t, filepath.Join(dir, "blobs")))
}

// Small contents share packs in the backup and after a restore, and are pruned when not needed.
func TestSmallFilesStayInPacks(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{Unlink: unlink.Options{Grace: time.Minute}})
	const n = 300
	for i := range n {
		r.put(t, fmt.Sprintf("/small-%d", i), fmt.Sprintf("text %d", i))
	}
	if r.packs(t) == 0 {
		t.Skip("there are no packs on this file system")
	}
	dest, dir := filepath.Join(t.TempDir(), "backup"), t.TempDir()
	opt := r.options()
	opt.Copy = true
	if res := r.backup(t, dest, opt); res.Blobs != n+2 || res.Moved.Copied != n+2 || contentFiles(t, dest) > 3 {
		t.Errorf("%+v, in %d files", res, contentFiles(t, dest))
	}
	r.Clock.Advance(time.Hour)
	if res := r.backup(t, dest, opt); res.Moved != (backup.Transferred{}) || res.Pruned != 0 {
		t.Errorf("nothing had changed: %+v", res)
	}
	if got, err := backup.Restore(t.Context(), dest, site(dir), false, opt); err != nil || len(got.Missing)+len(got.Damaged) > 0 || contentFiles(t, dir) > 3 {
		t.Fatalf("%+v in %d files, %v", got, contentFiles(t, dir), err)
	}
	o := open(t, dir)
	for _, i := range []int{0, n / 2, n - 1} {
		if b, err := o.read(t, r.who, fmt.Sprintf("/small-%d", i)); string(b) != fmt.Sprintf("text %d", i) {
			t.Errorf("%d is %q, %v", i, b, err)
		}
	}
	wantCleanAndOver(t, o)

	gone := r.forgetSmall(t)
	if res := r.backup(t, dest, opt); len(gone) != n+1 || res.Pruned != n+1 || res.Blobs != 1 || contentFiles(t, dest) != 1 {
		t.Errorf("after all small files were deleted: %+v", res)
	}
	for _, name := range gone {
		if _, err := (local.PackFiles{}).Read(dest, name); err == nil {
			t.Errorf("the backup keeps %s", name)
		}
	}
}

// packs counts the packs of the installation.
func (r *rig) packs(t *testing.T) (n int) {
	t.Helper()
	for name := range files(t, filepath.Join(r.Dir, "blobs")) {
		if strings.HasSuffix(name, ".pack") {
			n++
		}
	}
	return n
}

// forgetSmall deletes the rows of all contents in packs, as the unlinker does, and returns their
// names.
func (r *rig) forgetSmall(t *testing.T) (gone []string) {
	t.Helper()
	rows, err := r.DB.Query(t.Context(), `SELECT file FROM blobs WHERE file LIKE 'put-%'`)
	if gone, err = sqldb.Scan(rows, err, func(name *string, scan func(...any) error) error { return scan(name) }); err != nil {
		t.Fatal(err)
	}
	r.exec(t, `DELETE FROM versions WHERE blob_id IN (SELECT id FROM blobs WHERE file LIKE 'put-%')`)
	r.exec(t, `DELETE FROM blobs WHERE file LIKE 'put-%'`)
	return gone
}
