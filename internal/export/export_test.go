package export

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// manifest requests files of the drive and remote documents, some of them missing.
func (w *world) manifest(t *testing.T, in string) Request {
	t.Helper()
	var items []Item
	for i := range 4 {
		at := fmt.Sprintf("/%s/store%d/x%d.pdf", in, i%2, i)
		w.put(t, at, text(i)+in)
		items = append(items, Item{ID: fmt.Sprint("inv-", i), Path: at, Name: fmt.Sprintf("store%d/x%d.pdf", i%2, i)})
	}
	for i := range 3 {
		items = append(items, Item{ID: fmt.Sprint("web-", i), URL: w.url(fmt.Sprintf("/%s/%d.pdf", in, i)), Name: fmt.Sprintf("web/%d.pdf", i)})
	}
	items = append(items,
		Item{ID: "gone", Path: "/" + in + "/gone.pdf"}, Item{ID: "missing", URL: w.url("/missing/" + in), Name: "m.pdf"},
		Item{ID: "folder", Path: "/" + in + "/store0"})
	return Request{Name: "disk", Manifest: items}
}

var manifestFiles = []string{
	"disk/store0/x0.pdf", "disk/store0/x2.pdf", "disk/store1/x1.pdf", "disk/store1/x3.pdf", "disk/web/0.pdf", "disk/web/1.pdf", "disk/web/2.pdf", "err.txt",
}

func TestBatchAccountsForEveryEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	v := w.create(t, e, w.manifest(t, "in"))
	w.finish(t, e)
	got := w.get(t, e, v.ID)
	if got.State != Sealed || got.Total != 10 || got.Collected != 7 || got.Failed != 3 {
		t.Fatalf("it is %s with %d + %d of %d: %s", got.State, got.Collected, got.Failed, got.Total, got.Error)
	}
	w.check(t)
	_, files := w.download(t, e, v.ID)
	if diff := cmp.Diff(manifestFiles, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Error(diff)
	}
	c := e.Counters()
	if c.Sealed.Load() != 1 || c.Collected.Load() != 7 || c.FailedEntries.Load() != 3 || c.TakenOver.Load() != 0 || c.Fetched.Load() != 3*int64(len("%PDF-1.7 the document /in/1.pdf")) {
		t.Errorf("%d sealed, %d collected, %d failed, %d bytes fetched", c.Sealed.Load(), c.Collected.Load(), c.FailedEntries.Load(), c.Fetched.Load())
	}
	if c.Sent.Load() != int64(got.Size) || c.BrokenEntries.Load() != 0 {
		t.Errorf("%d bytes of %d were sent, %d entries were broken", c.Sent.Load(), got.Size, c.BrokenEntries.Load())
	}
	if files["disk/web/1.pdf"] != "%PDF-1.7 the document /in/1.pdf" || files["disk/store1/x3.pdf"] != text(3)+"in" {
		t.Errorf("the contents are %q", files)
	}
	failures, err := e.Errors(t.Context(), w.who, v.ID, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(files["err.txt"]), "\r\n")[1:]
	if len(lines) != len(failures) {
		t.Fatalf("err.txt has %d lines and there are %d failures", len(lines), len(failures))
	}
	for i, f := range failures {
		if !strings.HasPrefix(lines[i], f.Doc+"\t"+f.Path+"\t"+f.Reason) {
			t.Errorf("line %q is not about %+v", lines[i], f)
		}
	}
}

func TestSealedBatchOutlivesItsFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	w.put(t, "/in/a/1.pdf", "one")
	two := w.put(t, "/in/2.pdf", "two")
	v := w.create(t, e, Request{Folder: w.folder(t, "/in")})
	w.finish(t, e)
	before, files := w.download(t, e, v.ID)
	if diff := cmp.Diff(map[string]string{"in/2.pdf": "two", "in/a/1.pdf": "one"}, files); diff != "" {
		t.Fatal(diff)
	}
	w.purge(t, two)
	w.check(t)
	after, _ := w.download(t, w.process(w.db, "b"), v.ID) // another process computes the layout again
	if string(before) != string(after) {
		t.Error("the zip has changed")
	}
	if err := e.Cancel(t.Context(), w.who, v.ID); err != nil {
		t.Fatal(err)
	}
	w.check(t)
	if n := w.count(t, "SELECT COUNT(*) FROM export_pins"); n != 0 {
		t.Errorf("%d references are left", n)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM blobs"); n != 1 {
		t.Errorf("there are %d blobs, and one file", n)
	}
	if _, err := e.Open(t.Context(), w.who, v.ID); !drive.IsKind(err, drive.Gone) {
		t.Errorf("a cancelled zip: %v", err)
	}
}

func TestSealedBatchExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a", func(o *Options) { o.Lifetime = time.Hour })
	v := w.create(t, e, w.manifest(t, "in"))
	w.finish(t, e)
	w.advance(time.Hour)
	if _, err := e.Open(t.Context(), w.who, v.ID); !drive.IsKind(err, drive.Gone) {
		t.Errorf("an expired zip: %v", err)
	}
	if err := e.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.check(t)
	if got := w.get(t, e, v.ID); got.State != Expired {
		t.Errorf("it is %s", got.State)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM export_pins"); n != 0 {
		t.Errorf("%d references are left", n)
	}
	w.advance(keepRows + time.Hour)
	if err := e.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"exports", "export_wants", "export_errors", "export_lists"} {
		if n := w.count(t, "SELECT COUNT(*) FROM "+table); n != 0 {
			t.Errorf("%s has %d rows", table, n)
		}
	}
}

func TestSupplementHasMissingEntries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	v := w.create(t, e, w.manifest(t, "in"))
	w.finish(t, e)
	w.put(t, "/in/gone.pdf", "found")
	w.put(t, "/in/instead.pdf", "instead")
	items := []ReplacedSource{{N: 9, Item: Item{Path: "/in/instead.pdf"}}}
	for mode, want := range map[Mode][]string{
		OnlyMissing:  {"disk/gone.pdf", "disk/m.pdf", "err.txt"},
		WithPrevious: slices.Sorted(slices.Values(append(slices.Clone(manifestFiles), "disk/gone.pdf", "disk/m.pdf"))),
	} {
		gets := w.requestsOf("/in/1.pdf")
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error { // an older release permitted that
			_, err := tx.Exec(ctx, "UPDATE exports SET priority = 100 WHERE id = ?", v.ID)
			return err
		})
		s, err := e.Supplement(t.Context(), w.who, v.ID, SupplementRequest{Mode: mode, Items: items}, nil)
		if s.Priority > 0 {
			t.Errorf("a supplement of somebody who is no administrator has the priority %d", s.Priority)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.finish(t, e)
		if got := w.get(t, e, s.ID); got.State != Sealed || got.Failed != 1 || got.Root != v.ID || got.Revision < 2 {
			t.Fatalf("%s: it is %+v", mode, got)
		}
		_, files := w.download(t, e, s.ID)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
			t.Errorf("%s: %s", mode, diff)
		}
		if w.requestsOf("/in/1.pdf") != gets {
			t.Errorf("%s: what had arrived was fetched again", mode)
		}
		w.check(t)
	}
	if _, err := e.Supplement(t.Context(), w.who, v.ID, SupplementRequest{Items: []ReplacedSource{{N: 1, Item: Item{Path: "/in/instead.pdf"}}}}, nil); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("a supplement of what has not failed: %v", err)
	}
}

func TestConstraintRefusesWrongCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	v := w.create(t, e, w.manifest(t, "in"))
	w.finish(t, e)
	for _, change := range []string{"collected = collected - 1", "failed = failed - 1", "total = total + 1", "collected = collected + 1"} {
		if err := w.db.Write(t.Context(), exec("UPDATE exports SET "+change+" WHERE id = ?", v.ID)); err == nil {
			t.Errorf("%s was possible on a sealed batch", change)
		}
	}
}

func TestDeletedAccountHoldsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	w.create(t, e, w.manifest(t, "in"))
	w.finish(t, e)
	w.create(t, e, w.manifest(t, "next")) // a running batch
	b, err := e.queue.claim(t.Context())
	if err != nil || b == nil {
		t.Fatal(err)
	}
	if _, err := e.CreateSchedule(t.Context(), w.who, Schedule{Folder: w.folder(t, "/in")}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateArchive(t.Context(), w.who, "somebody", Request{Folder: w.folder(t, "/in")}, nil); err != nil {
		t.Fatal(err)
	}
	if err := e.DeleteAccount(t.Context(), w.who.Account); err != nil {
		t.Fatal(err)
	}
	e.workers.work(t.Context(), b)
	w.check(t)
	for _, table := range []string{"exports", "export_wants", "export_pins", "export_errors", "export_lists", "export_schedules", "export_jobs", "export_turns", "archives"} {
		if n := w.count(t, "SELECT COUNT(*) FROM "+table); n != 0 {
			t.Errorf("%s has %d rows", table, n)
		}
	}
}

func TestOnlyFetchedBytesAreCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	in := w.manifest(t, "in")
	free := w.count(t, "SELECT finished FROM ledgers")
	w.limit(t, drive.ByteSize(free)+drive.ByteSize(len("%PDF-1.7 the document /in/1.pdf"))) // quota for one document
	v := w.create(t, e, in)
	w.finish(t, e)
	got := w.get(t, e, v.ID)
	if got.State != Sealed || got.Collected != 5 || got.Failed != 5 {
		t.Errorf("it is %s with %d + %d", got.State, got.Collected, got.Failed)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM export_errors WHERE reason = 'quota'"); n != 2 {
		t.Errorf("%d entries had no room", n)
	}
	w.check(t)
}
