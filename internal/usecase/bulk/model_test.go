package bulk_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/bulk"
)

func TestMain(m *testing.M) {
	flag.Parse()
	sqldbtest.SetRapidChecks(depth.Pick(100, 100, 1000))
	os.Exit(m.Run())
}

// Random requests while operations run in slices and stop anywhere keep the invariants. An
// operation that is undone at once leaves the drive unchanged.
func TestRandomOperationsKeepInvariants(t *testing.T) {
	t.Parallel()
	dbs, store := t.TempDir(), treetest.Store(t)
	rapid.Check(t, func(rt *rapid.T) {
		at, giveBack := sqldbtest.Borrow(t, sqldb.Options{Path: filepath.Join(dbs, drive.NewID[drive.UploadID]().String())})
		defer giveBack()
		db, err := sqldb.Open(rt.Context(), at)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() {
			if err := db.Close(); err != nil {
				rt.Error(err)
			}
		}()
		h := &modelRun{fixture: newFixtureAt(rt, db, store, small)}
		h.limit(rt, 200)
		for _, folder := range []string{"/a", "/a/b", "/c"} {
			h.createFiles(rt, folder, 3)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"create": h.make, "run": h.run, "cancel": h.cancel, "retry": h.retry, "undo": h.undoAny, "there and back": h.thereAndBack,
			"": func(rt *rapid.T) { h.balance(rt) },
		})
	})
}

type modelRun struct {
	*fixture
	made []drive.OperationID
}

func (h *modelRun) ok(t *rapid.T, err error) {
	t.Helper()
	if drive.IsKind(err, drive.Internal, drive.Unavailable) {
		t.Fatal(err)
	}
}

// some draws nodes: live, trashed or hidden.
func (h *modelRun) some(t *rapid.T) []drive.NodeID {
	all, err := h.tree.Changes(t.Context(), h.db, h.who.Account, tree.Position{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	ids := []drive.NodeID{drive.NewID[drive.NodeID]()}
	for _, c := range all.Items {
		if c.Deleted.IsZero() {
			ids = append(ids, c.Node.ID)
		}
	}
	return rapid.SliceOfN(rapid.SampledFrom(ids), 1, 8).Draw(t, "items")
}

func (h *modelRun) wish(t *rapid.T, kinds ...bulk.Kind) bulk.Request {
	in := bulk.Request{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Items: h.some(t)}
	if in.Kind == bulk.Move || in.Kind == bulk.Copy {
		in.Parent = h.some(t)[0]
	}
	if in.Kind == bulk.Move || in.Kind == bulk.Copy || in.Kind == bulk.Restore {
		in.Conflict = rapid.SampledFrom([]drive.Conflict{"", drive.ConflictFail, drive.ConflictRename, drive.ConflictReplace}).Draw(t, "conflict")
	}
	return in
}

func (h *modelRun) make(t *rapid.T) {
	h.advance(time.Second)
	o, err := h.Create(t.Context(), h.who, h.wish(t, bulk.Trash, bulk.Restore, bulk.Move, bulk.Copy, bulk.Delete), nil)
	if h.ok(t, err); err == nil {
		h.made = append(h.made, o.ID)
	}
}

func (h *modelRun) any(t *rapid.T) drive.OperationID {
	if len(h.made) == 0 {
		t.Skip("there is none")
	}
	return rapid.SampledFrom(h.made).Draw(t, "operation")
}

func (h *modelRun) run(t *rapid.T) {
	running, err := h.ListRunning(t.Context(), drive.OperationID{}, 100)
	if err != nil || len(running) == 0 {
		t.Skip("nothing runs", err)
	}
	id := rapid.SampledFrom(running).Draw(t, "operation")
	_, err = h.Run(&dyingContext{Context: t.Context(), left: rapid.IntRange(0, 20).Draw(t, "lives")}, id)
	if err != nil && !drive.IsKind(err, drive.Unavailable) {
		t.Fatal(err)
	}
}

func (h *modelRun) cancel(t *rapid.T) { h.ok(t, second(h.Cancel(t.Context(), h.who, h.any(t)))) }
func (h *modelRun) retry(t *rapid.T)  { h.ok(t, second(h.Retry(t.Context(), h.who, h.any(t)))) }

func (h *modelRun) undoAny(t *rapid.T) {
	o, err := h.Undo(t.Context(), h.who, h.any(t), nil)
	if h.ok(t, err); err == nil && !slices.Contains(h.made, o.ID) {
		h.made = append(h.made, o.ID)
	}
}

func (h *modelRun) thereAndBack(t *rapid.T) {
	for {
		running, err := h.ListRunning(t.Context(), drive.OperationID{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(running) == 0 {
			break
		}
		for _, id := range running {
			if _, err := h.Run(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.advance(time.Second)
	before := h.list(t)
	in := h.wish(t, bulk.Trash, bulk.Move, bulk.Copy)
	if in.Conflict == drive.ConflictReplace && in.Kind == bulk.Copy {
		in.Conflict = "" // a version that was replaced stays so
	}
	o, err := h.Create(t.Context(), h.who, in, nil)
	if h.ok(t, err); err != nil {
		return
	}
	h.finish(t, o.ID)
	u, err := h.Undo(t.Context(), h.who, o.ID, nil)
	if h.ok(t, err); err != nil {
		if !slices.Equal(before, h.list(t)) {
			t.Fatalf("it cannot be undone (%v), and has changed the drive:\n%v\n%v", err, before, h.list(t))
		}
		return
	}
	h.finish(t, u.ID)
	if after := h.list(t); !slices.Equal(before, after) {
		t.Fatalf("%+v and back made\n%v\nof\n%v", in, after, before)
	}
}
