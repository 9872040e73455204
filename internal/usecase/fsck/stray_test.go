package fsck_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// fate is what happens to a stray.
type fate string

const (
	stays       fate = "stays"
	removed     fate = "is removed"
	quarantined fate = "goes to quarantine"
)

// The matrix of B3: files in staging and store, their rows, and their fate.
func TestStrays(t *testing.T) {
	t.Parallel()
	id := drive.NewID[drive.UploadID]().String() // created before the auditor: of an earlier process
	day := "staging/2026/11/20/"
	put := func(gen int) string { return blobPlace(fmt.Sprintf("put-%d-%s", gen, id)) }
	cases := []struct {
		name  string
		plant func(t *testing.T, r *rig) (place string)
		fate  fate
	}{
		{"the staging of an active upload", func(_ *testing.T, r *rig) string { return day + r.active.ID.String() }, stays},
		{"the staging of a parked upload", func(_ *testing.T, r *rig) string { return day + r.parked.ID.String() }, stays},
		{"the staging of an upload that is being reclaimed", func(t *testing.T, r *rig) string {
			r.exec(t, `UPDATE uploads SET state = 'reclaiming' WHERE id = ?`, r.parked.ID)
			return day + r.parked.ID.String()
		}, stays},
		{"the staging of a done upload", func(t *testing.T, r *rig) string {
			done := r.scalar(t, `SELECT id FROM uploads WHERE state = 'done'`)
			r.plant(t, day+done+"/journal", 300)
			return day + done
		}, removed},
		{"the staging of a gone upload, with bytes", func(t *testing.T, r *rig) string {
			r.exec(t, `UPDATE ledgers SET unfinished = 0`)
			r.exec(t, `UPDATE uploads SET state = 'gone', held = 0 WHERE id = ?`, r.parked.ID)
			return day + r.parked.ID.String()
		}, removed},
		{"the staging of a joined upload, which its final still reads", func(t *testing.T, r *rig) string {
			r.exec(t, `UPDATE ledgers SET unfinished = 0`)
			r.exec(t, `UPDATE uploads SET state = 'gone', reason = 'joined', held = 0 WHERE id = ?`, r.parked.ID)
			r.exec(t, `INSERT INTO upload_joins (partial_id, final_id, n, begun_at, part_size, size) VALUES (?, ?, 0, 0, 1, 1)`, r.parked.ID, id)
			return day + r.parked.ID.String()
		}, stays},
		{"the content of a joined upload", func(t *testing.T, r *rig) string {
			r.exec(t, `INSERT INTO upload_joins (partial_id, final_id, n, begun_at, part_size, size) VALUES (?, ?, 0, 0, 1, 1)`, id, id)
			r.plant(t, blobPlace(id), 300)
			return blobPlace(id)
		}, stays},
		{"the staging of a done upload under another date", func(t *testing.T, r *rig) string {
			done := r.scalar(t, `SELECT id FROM uploads WHERE state = 'done'`)
			r.plant(t, "staging/2019/01/31/"+done+"/data", 300)
			return "staging/2019/01/31/" + done
		}, quarantined},
		{"no row, no bytes, earlier process", func(t *testing.T, r *rig) string {
			r.stage(t, id)
			return day + id
		}, removed},
		{"no row, an empty directory, earlier process", func(t *testing.T, r *rig) string {
			if err := os.MkdirAll(filepath.Join(r.Dir, day, id), 0o700); err != nil {
				t.Fatal(err)
			}
			return day + id
		}, removed},
		{"no row, no bytes, this process", func(t *testing.T, r *rig) string {
			young := drive.NewID[drive.UploadID]().String()
			r.stage(t, young)
			return day + young
		}, stays},
		{"no row, a byte", func(t *testing.T, r *rig) string {
			r.stage(t, id)
			r.plant(t, day+id+"/data", 1)
			return day + id
		}, quarantined},
		{"no row, something large beside the journal", func(t *testing.T, r *rig) string {
			r.stage(t, id)
			r.plant(t, day+id+"/notes", 5000)
			return day + id
		}, quarantined},
		{"a file where a staging should be", func(t *testing.T, r *rig) string {
			r.plant(t, day+id, 10)
			return day + id
		}, quarantined},
		{"something else among the dates", func(t *testing.T, r *rig) string {
			r.plant(t, "staging/2026/13/x", 10)
			return "staging/2026/13"
		}, quarantined},
		{"the file of a blob", func(t *testing.T, r *rig) string { return blobPlace(r.scalar(t, `SELECT file FROM blobs LIMIT 1`)) }, stays},
		{"a released file", func(t *testing.T, r *rig) string {
			r.plant(t, blobPlace(id), 10)
			r.exec(t, `INSERT INTO released (file, size, released_at) VALUES (?, 10, 0)`, id)
			return blobPlace(id)
		}, stays},
		{"a file that no row names", func(t *testing.T, r *rig) string {
			r.plant(t, blobPlace(id), 10)
			return blobPlace(id)
		}, quarantined},
		{"a file of a gone upload", func(t *testing.T, r *rig) string {
			v := r.Start(t, r.who, "/c", 1<<20)
			if err := r.Cancel(t.Context(), r.who, v.ID); err != nil {
				t.Fatal(err)
			}
			r.plant(t, blobPlace(v.ID.String()), 10)
			return blobPlace(v.ID.String())
		}, quarantined},
		{"a small file of an earlier start", func(t *testing.T, r *rig) string {
			r.plant(t, put(generation-1), 10)
			return put(generation - 1)
		}, removed},
		{"a small file of this start that nobody writes", func(t *testing.T, r *rig) string {
			r.plant(t, put(generation), 10)
			return put(generation)
		}, quarantined},
		{"a small file of a later start", func(t *testing.T, r *rig) string {
			r.plant(t, put(generation+1), 10)
			return put(generation + 1)
		}, quarantined},
		{"a small file of an earlier start that a row names", func(t *testing.T, r *rig) string {
			name := fmt.Sprintf("put-%d-%s", generation-1, id)
			r.plant(t, blobPlace(name), 12)
			r.exec(t, `UPDATE blobs SET file = ? WHERE size = 12`, name)
			return blobPlace(name)
		}, stays},
		{"a name that is not ours", func(t *testing.T, r *rig) string {
			r.plant(t, "blobs/ab/holiday.jpg", 10)
			return "blobs/ab/holiday.jpg"
		}, quarantined},
		{"a good name in the wrong place", func(t *testing.T, r *rig) string {
			name := r.scalar(t, `SELECT file FROM blobs LIMIT 1`)
			r.plant(t, "blobs/zz/"+name, 10)
			return "blobs/zz"
		}, quarantined},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, uploadtest.Options{})
			place := c.plant(t, r)
			seen, err := r.audit.Check(t.Context(), fsck.Scope{})
			if err != nil {
				t.Fatal(err)
			}
			if !r.exists(place) {
				t.Fatal("it was touched although nothing was to be repaired")
			}
			// What the next repair deletes, because rows explain it, is a leftover and no finding.
			if left := seen.Leftovers.Count == 1 && seen.Clean(); left != (c.fate == removed) || left && seen.Total != 0 {
				t.Errorf("it %s: %d left over, findings: %v", c.fate, seen.Leftovers.Count, seen.Findings)
			}
			r.check(t, fsck.Scope{Repair: true})
			got := removed
			if r.exists(place) {
				got = stays
			}
			for _, name := range r.quarantined(t) {
				if name == strings.ReplaceAll(place, "/", "_") {
					got = quarantined
				}
			}
			if got != c.fate {
				t.Errorf("it %s; it should be that it %s", got, c.fate)
			}
		})
	}
}

// stage creates a staging as begin does, without its row.
func (r *rig) stage(t *testing.T, id string) {
	t.Helper()
	parsed, err := drive.ParseID[drive.UploadID](id)
	if err != nil {
		t.Fatal(err)
	}
	ref := blob.Ref{ID: parsed, Begun: drive.TimeOf(r.Clock.Now()), PartSize: 2 << 20, Size: 5 << 20}
	if err := r.Local.Staging.Create(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
}

func TestLostStagings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, remove, spoil, want string }{
		{"all of it", "", "", "P1 upload: a staging | none"},
		{"its bytes", "data", "", "P1 upload: a staging | none"},
		{"its journal", "journal", "", "P1 upload: a staging | none"},
		{"a journal that is not one", "", "journal", "P2 upload: a readable journal | internal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, uploadtest.Options{})
			dir := "staging/2026/11/20/" + r.parked.ID.String()
			if c.spoil != "" {
				r.plant(t, dir+"/"+c.spoil, 500)
			} else if err := os.RemoveAll(filepath.Join(r.Dir, dir, c.remove)); err != nil {
				t.Fatal(err)
			}
			got, repaired := r.check(t, fsck.Scope{Repair: true})
			if diff := cmp.Diff([]string{c.want}, got); diff != "" || repaired != 0 {
				t.Fatalf("repaired %d (-want +got)\n%s", repaired, diff)
			}
			if err := r.Cancel(t.Context(), r.who, r.parked.ID); err != nil {
				t.Fatal(err)
			}
			r.wantClean(t)
		})
	}
}

func TestLostAndDamagedBlobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(path string) error
		deep  bool // found only by reading
		want  string
	}{
		{"gone", os.Remove, false, "P1 blob: file {file} of 5242880 bytes | no such file"},
		{"cut", func(path string) error { return os.Truncate(path, 100) }, false, "P1 blob: file {file} of 5242880 bytes | 100 bytes"},
		{"a bit flipped", func(path string) error { return flip(path, 3<<20) }, true, "B1 blob: blake3 {sum} | other bytes in part 1 of 3"},
		{"two parts changed", func(path string) error {
			if err := flip(path, 0); err != nil {
				return err
			}
			return flip(path, 5<<20-1)
		}, true, "B1 blob: blake3 {sum} | other bytes in part 0, 2 of 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, uploadtest.Options{})
			file := r.scalar(t, `SELECT file FROM blobs WHERE size > 12`)
			path := filepath.Join(r.Dir, blobPlace(file))
			if err := c.spoil(path); err != nil {
				t.Fatal(err)
			}
			if c.deep {
				if got, _ := r.check(t, fsck.Scope{}); len(got) != 0 {
					t.Fatalf("seen without reading: %v", got)
				}
			}
			report, err := r.audit.Check(t.Context(), fsck.Scope{Repair: true, Deep: c.deep})
			if err != nil || report.Total != 1 || report.Repaired != 0 {
				t.Fatalf("%+v, %v", report, err)
			}
			f := report.Findings[0]
			want := strings.NewReplacer("{file}", file, "{sum}", r.scalar(t, `SELECT digest FROM blobs WHERE size > 12`)).Replace(c.want)
			if got := fmt.Sprintf("%s blob: %s | %s", f.Invariant, f.Expected, f.Found); got != want {
				t.Errorf("found %s, want %s", got, want)
			}
			if node := r.scalar(t, `SELECT id FROM nodes WHERE name = 'a'`); len(f.Nodes) != 1 || f.Nodes[0].String() != node {
				t.Errorf("the files that suffer: %v, want %s", f.Nodes, node)
			}
			if n := r.scalar(t, `SELECT COUNT(*) FROM blobs WHERE damaged_at > 0`); n != "1" {
				t.Errorf("%s blobs are marked", n)
			}
			if got, _ := r.check(t, fsck.Scope{}); len(got) != 1 {
				t.Errorf("once marked it is not reported any more: %v", got)
			}
			v := r.Start(t, r.who, "/again", 5<<20) // the same content repairs it
			r.SendAll(t, r.who, v, r.data)
			r.complete(t, v)
			if string(r.Read(t, r.who, "/a")) != string(r.data) {
				t.Error("the file was not healed")
			}
			r.exec(t, `UPDATE released SET released_at = 0`)
			r.unlink(t)
			r.wantClean(t)
		})
	}
}

func flip(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 1
	_, err = f.WriteAt(b, at)
	return err
}

func TestCorrectBytesLoseDamageMark(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	r.exec(t, `UPDATE blobs SET damaged_at = 1`)
	if got, _ := r.check(t, fsck.Scope{Repair: true}); len(got) != 2 {
		t.Errorf("a mark that only reading can take away: %v", got)
	}
	if got, repaired := r.check(t, fsck.Scope{Repair: true, Deep: true}); len(got) != 2 || repaired != 2 {
		t.Errorf("repaired %d of %v", repaired, got)
	}
	r.wantClean(t)
}

func TestPartSumsAreRecomputed(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	before := r.scalar(t, `SELECT CONCAT(hex(parts), crc32) FROM blobs WHERE size > 12`)
	r.exec(t, `UPDATE blobs SET parts = ?, crc32 = 1 WHERE size > 12`, make([]byte, 36))
	if got, repaired := r.check(t, fsck.Scope{Repair: true, Deep: true}); len(got) != 1 || repaired != 1 {
		t.Errorf("repaired %d of %v", repaired, got)
	}
	if after := r.scalar(t, `SELECT CONCAT(hex(parts), crc32) FROM blobs WHERE size > 12`); after != before {
		t.Error("the sums are not what they were")
	}
}

func TestEmptyFilesAreValid(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	r.put(t, "/nothing", nil)
	r.wantClean(t)
	v, err := r.Begin(t.Context(), r.who, upload.Begin{Path: uploadtest.Path(t, "/also nothing"), Size: 0}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.complete(t, v)
	r.wantClean(t)
}
