package export

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// replace replaces the content of a file and keeps no older version.
func (w *world) replace(t *testing.T, id drive.NodeID, text string) {
	t.Helper()
	fresh := treetest.Stored(t, w.store, text)
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := w.tree.Find(ctx, tx, w.who.Account, id)
		if err != nil {
			return err
		}
		b, _, err := content.Content{}.Attach(ctx, tx, fresh)
		if err != nil {
			return err
		}
		_, err = w.tree.AddVersion(ctx, tx, n, tree.File{Blob: b, Size: fresh.Size, MTime: drive.Time(w.clock.Load()), Mime: "application/pdf", By: w.who.User})
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "SELECT id, blob_id, size FROM versions WHERE node_id = ? AND blob_id <> ?", id, b)
		old, err := sqldb.Scan(rows, err, func(v *tree.Version, scan func(...any) error) error { return scan(&v.ID, &v.Blob, &v.Size) })
		if err != nil {
			return err
		}
		moved := fresh.Size
		for _, v := range old {
			moved -= v.Size
			if _, err := tx.Exec(ctx, "DELETE FROM versions WHERE id = ?", v.ID); err != nil {
				return err
			}
			if err := (content.Content{}).Release(ctx, tx, w.who.Account, v.Blob); err != nil {
				return err
			}
		}
		return quota.Ledger{}.Apply(ctx, tx, w.who.Account, quota.Move{Finished: moved})
	})
}

// fileOf returns the store file of a node's content.
func (w *world) fileOf(t *testing.T, id drive.NodeID) (file string) {
	t.Helper()
	err := w.db.QueryRow(t.Context(), "SELECT b.file FROM nodes n JOIN versions v ON v.id = n.version_id JOIN blobs b ON b.id = v.blob_id WHERE n.id = ?", id).Scan(&file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// corrupt flips a bit of a file in the store.
func (w *world) corrupt(t *testing.T, file, text string) {
	t.Helper()
	wrong := []byte(text)
	wrong[len(wrong)/2] ^= 1
	if err := w.store.Remove(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Put(t.Context(), file, blob.NewBody(bytes.NewReader(wrong), blob.BodyOptions{Size: drive.ByteSize(len(wrong))})); err != nil {
		t.Fatal(err)
	}
}

// readBroken downloads a zip that must break off, and returns the received bytes.
func (w *world) readBroken(t *testing.T, e *Exports, id drive.ExportID) []byte {
	t.Helper()
	d, err := e.Open(t.Context(), w.who, id)
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // panics are values
				t.Errorf("the download ended with %v", v)
			}
		}()
		d.Serve(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), "somebody", nil)
	}()
	if int64(rec.Body.Len()) >= int64(d.Size) {
		t.Errorf("all %d bytes came", rec.Body.Len())
	}
	return rec.Body.Bytes()
}

// A waiting batch collects files as they are when it runs. Damaged and deleted files fail with a
// line of err.txt.
func TestFilesChangeWhileBatchWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	same, other, gone, bad := w.put(t, "/in/1.pdf", "same"), w.put(t, "/in/2.pdf", "before"), w.put(t, "/in/3.pdf", "gone"), w.put(t, "/in/4.pdf", "bad")
	v := w.create(t, e, Request{Name: "in", Nodes: []drive.NodeID{same, other, gone, bad}})
	w.replace(t, other, "after")
	w.purge(t, gone)
	w.write(t, exec("UPDATE blobs SET damaged_at = 1 WHERE file = ?", w.fileOf(t, bad))) // as the auditor marks it
	w.finish(t, e)
	if got := w.get(t, e, v.ID); got.State != Sealed || got.Collected != 2 || got.Failed != 2 {
		t.Fatalf("it is %s with %d + %d", got.State, got.Collected, got.Failed)
	}
	_, files := w.download(t, e, v.ID)
	if files["in/1.pdf"] != "same" || files["in/2.pdf"] != "after" || len(files) != 3 {
		t.Errorf("the files are %q", files)
	}
	for _, line := range []string{"/in/3.pdf\tmissing", "/in/4.pdf\tdamaged"} {
		if !strings.Contains(files["err.txt"], line) {
			t.Errorf("err.txt lacks %q: %q", line, files["err.txt"])
		}
	}
	w.check(t)
}

// Undetected damage, before or after sealing: no client accepts wrong bytes, and the owner sees the
// reason.
func TestDamagedBytesAreNotDelivered(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the seal %t", after), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.process(w.db, "a")
			const text = "the bytes that were sealed"
			w.put(t, "/in/1.pdf", "first")
			at := w.put(t, "/in/2.pdf", text)
			v := w.create(t, e, Request{Folder: w.folder(t, "/in")})
			if !after {
				w.corrupt(t, w.fileOf(t, at), text)
			}
			w.finish(t, e)
			if after {
				w.download(t, e, v.ID)
				w.corrupt(t, w.fileOf(t, at), text)
			}
			for _, p := range []*Exports{e, w.process(w.db, "b")} {
				if part := w.readBroken(t, p, v.ID); bytes.Contains(part, []byte("sealed")) {
					t.Error("the end of the damaged entry came")
				}
				if p.Counters().BrokenEntries.Load() == 0 {
					t.Error("nobody counted it")
				}
			}
			if got := w.get(t, e, v.ID); got.Error != "damaged" {
				t.Errorf("the batch says %q", got.Error)
			}
		})
	}
}

// Batches that wait while their file is replaced again and again hold the content they collect:
// each content once, uncharged, at most twice the quota in total.
func TestReplacedFilesCountAgainstPinnedLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	w.limit(t, 1000)
	at := w.put(t, "/in/1.pdf", fmt.Sprintf("%0400d", 0))
	var waiting []View
	for range 8 {
		waiting = append(waiting, w.create(t, e, Request{Nodes: []drive.NodeID{at}}))
	}
	for i := range waiting { // collect one, then replace the file
		b, err := e.queue.claim(t.Context())
		if err != nil || b == nil {
			t.Fatal(err)
		}
		e.workers.work(t.Context(), b)
		w.replace(t, at, fmt.Sprintf("%0400d", i+1))
		w.check(t)
	}
	var have, refused int
	for _, v := range waiting {
		got := w.get(t, e, v.ID)
		if got.State != Sealed || got.Collected+got.Failed != 1 {
			t.Fatalf("it is %s with %d + %d", got.State, got.Collected, got.Failed)
		}
		have, refused = have+int(got.Collected), refused+int(got.Failed)
	}
	if sum := w.count(t, "SELECT COALESCE(SUM(size), 0) FROM export_pins"); sum > 2000 || have != 5 || refused != 3 {
		t.Errorf("%d batches hold %d bytes, %d were refused", have, sum, refused)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM export_errors WHERE reason = 'quota'"); n != 3 {
		t.Errorf("%d say why", n)
	}
	if n := w.count(t, "SELECT finished FROM ledgers"); n != 400 {
		t.Errorf("%d bytes are charged, and there is one file", n)
	}
}

// Files that exist at one time never exceed the pinned limit, in one batch or several.
func TestPinnedLimitAllowsNormalBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	const many = 2*pageSize + 20
	w.limit(t, 10*many)
	for i := range many {
		w.put(t, fmt.Sprintf("/in/%03d.pdf", i), fmt.Sprintf("%010d", i))
	}
	one, two := w.create(t, e, Request{Folder: w.folder(t, "/in")}), w.create(t, e, Request{Folder: w.folder(t, "/in")})
	w.finish(t, e)
	for _, v := range []View{one, two} {
		if got := w.get(t, e, v.ID); got.State != Sealed || got.Collected != many {
			t.Errorf("it is %s with %d + %d of %d", got.State, got.Collected, got.Failed, many)
		}
	}
}
