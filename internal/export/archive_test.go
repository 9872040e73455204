package export

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/export/zipline"
	"example.org/smartdrive/internal/testkit/depth"
)

// fill creates n files with the content of one file in a folder.
func (w *world) fill(t testing.TB, of drive.NodeID, n int) (ids []drive.NodeID) {
	t.Helper()
	const batch = 200 // 1000 exceed the transaction timeout on a loaded server
	one, err := w.tree.Find(t.Context(), w.db, w.who.Account, of)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < n; at += batch {
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			ids = ids[:at] // the transaction may run twice
			for i := at; i < min(at+batch, n); i++ {
				if err := (content.Content{}).Ref(ctx, tx, one.Blob); err != nil {
					return err
				}
				placed, err := w.tree.PutFile(ctx, tx, w.who.Account, tree.File{
					Parent: one.Parent, Name: drive.Name(fmt.Sprintf("%06d.txt", i)), Conflict: drive.ConflictFail, Blob: one.Blob, Size: one.Size,
					MTime: one.MTime, Mime: one.Mime, By: w.who.User,
				})
				if err != nil {
					return err
				}
				ids = append(ids, placed.Node.ID)
			}
			return nil
		})
	}
	return ids
}

func TestDirectSendsManyFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := depth.Pick(3000, 20_000, 20_000)
	if w.db.Dialect() == sqldb.MySQL {
		many = depth.Pick(3000, 3000, 20_000) // creating these rows takes two minutes
	}
	e := w.process(w.db, "one")
	ids := w.fill(t, w.put(t, "/d/a", "first"), many-1)
	free := func() drive.ByteSize {
		g, err := e.sender.budget.Acquire(t.Context(), "all", 1, sendMemory)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		return g.Bytes
	}
	before := free()
	d, err := e.OpenDirect(t.Context(), w.who, "somebody", Request{Folder: w.folder(t, "/d")})
	if err != nil {
		t.Fatal(err)
	}
	if d.Total != int64(many) || d.archive.Len() != many || d.archive.Entry(many-1).Name != "d/a" {
		t.Errorf("it has %d files, the last is %s", d.archive.Len(), d.archive.Entry(many-1).Name)
	}
	if least := directWindow + drive.ByteSize(memoryOf(d.archive)); d.grant.Bytes < least || d.grant.Bytes > least+directStep {
		t.Errorf("%v are taken for %v", d.grant.Bytes, least)
	}
	rec := httptest.NewRecorder()
	d.Serve(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), "somebody", nil)
	if got := drive.ByteSize(rec.Body.Len()); got != d.Size {
		t.Errorf("%d bytes of %d come", got, d.Size)
	}
	d.Close()
	if after := free(); after != before {
		t.Errorf("%v are free afterwards, %v before", after, before)
	}
	a, err := e.CreateArchive(t.Context(), w.who, "somebody", Request{Nodes: ids, Name: "choice"}, nil)
	if err != nil || a.Total != int64(many)-1 || a.Name != "choice" {
		t.Fatalf("%+v, %v", a, err)
	}
	d, same, err := e.OpenArchive(t.Context(), w.who, "somebody", a.ID)
	if err != nil || !same || d.ETag != a.ETag || d.Size != a.Size || d.archive.Entry(0).Name != "choice/000000.txt" {
		t.Fatalf("%+v, %v, %v", d.View, same, err)
	}
	d.Close()
	_, err = e.CreateArchive(t.Context(), w.who, "somebody", Request{Nodes: make([]drive.NodeID, MaxSelected+1)}, nil)
	if !drive.IsKind(err, drive.TooLarge) {
		t.Errorf("a choice of too many: %v", err)
	}
}

// A list that exceeds the memory budget is refused, and its memory is released.
func TestDirectRefusesListBeyondMemory(t *testing.T) {
	sqldbtest.SQLiteOnly(t, "it is the server whose memory is counted, and making that many rows takes half a minute")
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	e.sender.budget = zipline.NewBudget(directMemory)
	w.fill(t, w.put(t, "/d/a", "first"), int((directMemory-directWindow)/planMemory))
	for range 2 {
		if _, err := e.OpenDirect(t.Context(), w.who, "somebody", Request{Folder: w.folder(t, "/d")}); !drive.IsKind(err, drive.Unavailable) {
			t.Fatalf("the long one: %v", err)
		}
	}
	w.put(t, "/c/a", "first")
	d, err := e.OpenDirect(t.Context(), w.who, "somebody", Request{Folder: w.folder(t, "/c")})
	if err != nil {
		t.Fatalf("a short one: %v", err)
	}
	d.Close()
}

// Any number of archives can be created: the oldest and the expired ones are deleted.
func TestArchivesEvictOldest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	in := Request{Nodes: []drive.NodeID{w.put(t, "/a", "first"), w.put(t, "/b", "second")}}
	var all []drive.ArchiveID
	for range maxArchives + 5 {
		a, err := e.CreateArchive(t.Context(), w.who, "somebody", in, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.advance(archiveLife / (2 * maxArchives))
		all = append(all, a.ID)
	}
	found := func(id drive.ArchiveID) bool {
		d, _, err := e.OpenArchive(t.Context(), w.who, "somebody", id)
		if err == nil {
			d.Close()
		} else if !drive.IsKind(err, drive.NotFound) {
			t.Error(err)
		}
		return err == nil
	}
	if found(all[4]) || !found(all[5]) || !found(all[len(all)-1]) {
		t.Errorf("found are %v %v %v", found(all[4]), found(all[5]), found(all[len(all)-1]))
	}
	rows := func() (n int) {
		if err := w.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM archives").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := rows(); n != maxArchives {
		t.Errorf("%d rows are kept", n)
	}
	w.advance(archiveLife * 3 / 4)
	if err := e.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n == 0 || n == maxArchives || found(all[5]) || !found(all[len(all)-1]) {
		t.Errorf("%d rows are left after a day", n)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		return evictArchives(ctx, tx, w.who.Account, maxPickedOfUser-3)
	})
	if n := rows(); n != 1 {
		t.Errorf("beside a long one %d rows are left", n)
	}
}

// Missing files are listed in err.txt, and the zip stays the same between requests.
func TestDirectReportsMissingFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	w.put(t, "/d/a", "first")
	n, err := w.tree.Find(t.Context(), w.db, w.who.Account, w.put(t, "/d/b", "second"))
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE blobs SET damaged_at = 1 WHERE id = ?", n.Blob)
		return err
	})
	var tags []string
	for range 2 {
		d, err := e.OpenDirect(t.Context(), w.who, "somebody", Request{Folder: w.folder(t, "/d")})
		if err != nil {
			t.Fatal(err)
		}
		if d.Total != 2 || d.Failed != 1 || d.archive.Len() != 2 || d.archive.Entry(1).Name != "err.txt" {
			t.Errorf("it is %+v", d.View)
		}
		tags = append(tags, d.ETag)
		d.Close()
		w.advance(archiveLife)
	}
	if tags[0] != tags[1] {
		t.Error("the same files have another zip later")
	}
}

// Several accounts download archives concurrently; none is refused.
func TestArchiveDownloadsTakeTurnsByAccount(t *testing.T) {
	t.Parallel()
	rounds := depth.Pick(8, 55, 55)
	w := newWorld(t)
	e := w.process(w.db, "one")
	var all sync.WaitGroup
	for range 3 {
		w.makeUser(t)
		in := Request{Nodes: []drive.NodeID{w.put(t, "/x/a", "first"), w.put(t, "/y/b", "second"), w.put(t, "/z/c/d", "third")}}
		who := w.who
		all.Go(func() {
			for i := range rounds {
				a, err := e.CreateArchive(t.Context(), who, who.User.String(), in, nil)
				if err != nil {
					t.Errorf("selection %d: %v", i, err)
					return
				}
				d, same, err := e.OpenArchive(t.Context(), who, who.User.String(), a.ID)
				if err != nil || !same {
					t.Errorf("download %d: %v, %v", i, same, err)
					return
				}
				rec := httptest.NewRecorder()
				d.Serve(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), who.User.String(), nil)
				d.Close()
				if rec.Code != http.StatusOK || drive.ByteSize(rec.Body.Len()) != a.Size {
					t.Errorf("download %d: status %d, %d bytes of %d", i, rec.Code, rec.Body.Len(), a.Size)
				}
			}
		})
	}
	all.Wait()
}
