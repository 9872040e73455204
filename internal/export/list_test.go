package export

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/export/zipline"
)

// names returns the entries of a request.
func (w *world) names(t *testing.T, e *Exports, in Request) (all []string) {
	t.Helper()
	list, err := e.creator.buildList(t.Context(), w.who, &in)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list.list {
		all = append(all, l.Name+" "+l.Path)
	}
	return all
}

// Thousands of folders are listed in sets, in name order, depth first.
func TestListManyFolders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := sqldbtest.NewKillSwitch(0, false)
	e := w.process(w.open(t, line.Connector), "a")
	const wide, deep = 3*folderSet + 1, 20
	var want []string
	for i := range wide {
		path, err := drive.ParsePath(fmt.Sprintf("/in/%04d/x", i))
		if err != nil {
			t.Fatal(err)
		}
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := w.tree.EnsureFolders(ctx, tx, w.who.Account, path)
			return err
		})
	}
	at := "/in/0007"
	for range deep {
		at += "/d"
	}
	for _, path := range []string{at + "/bottom.pdf", "/in/0007/x/a.pdf", "/in/0007/y.pdf", "/in/0599/x/b.pdf", "/in/zz.pdf"} {
		w.put(t, path, path)
		want = append(want, path[len("/in/"):]+" "+path)
	}
	w.put(t, "/in/0007/d/other.txt", "other")
	before := line.Made.Load()
	in := Request{Folder: w.folder(t, "/in"), Filter: Filter{Ext: []string{"pdf"}}}
	if diff := cmp.Diff(want, w.names(t, e, in)); diff != "" {
		t.Error(diff)
	}
	// Statements: folders per level in sets, children in pages, and some before.
	if asked, most := line.Made.Load()-before, int64(deep+2*wide/folderSet+20); asked > most {
		t.Errorf("%d folders took %d statements, and not at most %d", 2*wide+deep, asked, most)
	}
}

// Pages end anywhere, within a folder or between two. The database filters other months.
func TestListContinuesAfterPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	e.listPage = 5
	var want []string
	for i := range 12 {
		for j := range i { // so that pages end at each position of a folder
			at := fmt.Sprintf("/in/%02d/%03d.pdf", i, j)
			w.put(t, at, "x")
			want = append(want, at[len("/in/"):]+" "+at)
		}
	}
	if diff := cmp.Diff(want, w.names(t, e, Request{Folder: w.folder(t, "/in")})); diff != "" {
		t.Error(diff)
	}
	w.advance(40 * 24 * time.Hour)
	w.put(t, "/in/03/new.pdf", "x")
	if diff := cmp.Diff(want, w.names(t, e, Request{Folder: w.folder(t, "/in"), Filter: Filter{Month: "2026-11"}})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"03/new.pdf /in/03/new.pdf"}, w.names(t, e, Request{Folder: w.folder(t, "/in"), Filter: Filter{Month: "2026-12"}})); diff != "" {
		t.Error(diff)
	}
	few := w.process(w.db, "b", func(o *Options) { o.MaxEntries = len(want) / maxParts })
	in := Request{Folder: w.folder(t, "/in")}
	if _, err := few.creator.buildList(t.Context(), w.who, &in); !drive.IsKind(err, drive.TooLarge) {
		t.Errorf("one too many: %v", err)
	}
}

// Concurrent requests share one layout; if it fails, the next request tries.
func TestConcurrentLayoutsAreShared(t *testing.T) {
	t.Parallel()
	var c layoutCache
	id := drive.NewID[drive.ExportID]()
	archive, err := zipline.Layout(nil)
	if err != nil {
		t.Fatal(err)
	}
	const askers = 20
	var made atomic.Int64
	begun, let := make(chan struct{}), make(chan struct{})
	failed := errors.New("not this time")
	load := func() (*zipline.Archive, error) {
		if made.Add(1) == 1 {
			close(begun)
			<-let
			return nil, failed
		}
		return archive, nil
	}
	var wait sync.WaitGroup
	var got, lost atomic.Int64
	ask := func() {
		a, err := c.get(t.Context(), id, load)
		switch {
		case a == archive && err == nil:
			got.Add(1)
		case errors.Is(err, failed):
			lost.Add(1)
		}
	}
	wait.Go(ask)
	<-begun
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(over, id, load); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone waits no longer: %v", err)
	}
	for range askers - 1 {
		wait.Go(ask)
	}
	close(let)
	wait.Wait()
	if made.Load() != 2 || got.Load() != askers-1 || lost.Load() != 1 {
		t.Errorf("laid out %d times, %d have it, %d do not", made.Load(), got.Load(), lost.Load())
	}
}
