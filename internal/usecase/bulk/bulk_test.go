package bulk_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/bulk"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/share"
)

func same(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the drive differs (-want +got):\n%s", diff)
	}
}

func TestSmallOperationEndsInCreate(t *testing.T) {
	t.Parallel()
	d := newFixture(t, bulk.Options{})
	_, all := d.createFiles(t, "/a", 3)
	o := d.create(t, bulk.Request{Kind: bulk.Trash, Items: append(all, all[0])}) // one twice is once
	condition(t, o, bulk.Done, 3, 0, 3)
	if len(d.started) != 0 || !o.Undoable {
		t.Errorf("started %v; %+v", d.started, o)
	}
	same(t, []string{"/a"}, d.list(t))
	d.balance(t)
}

// Each kind has its effect, and its undo restores the previous state.
func TestUndoRestoresEachKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []bulk.Kind{bulk.Trash, bulk.Move, bulk.Copy, bulk.Restore} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			d := newFixture(t, small)
			_, all := d.createFiles(t, "/a", 10)
			d.createFiles(t, "/a/deep/er", 9)
			all = append(all, d.at(t, "/a/deep"))
			in := bulk.Request{Kind: kind, Items: all}
			if kind == bulk.Move || kind == bulk.Copy {
				in.Parent = d.mkdir(t, "/to")
			}
			if kind == bulk.Restore {
				d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: all}).ID)
			}
			before := d.list(t)
			o := d.create(t, in)
			if kind == bulk.Copy && len(d.started) != 1 {
				t.Errorf("started %v", d.started)
			}
			condition(t, d.finish(t, o.ID), bulk.Done, 11, 0, 11)
			after := d.list(t)
			if slices.Equal(before, after) {
				t.Fatal("nothing happened")
			}
			// Doing it again changes nothing, but for copies, which are made again.
			if kind != bulk.Copy {
				again := d.finish(t, d.create(t, in).ID)
				condition(t, again, bulk.Done, 11, 0, 11)
				condition(t, d.undo(t, again.ID), bulk.Done, 0, 0, 0)
				same(t, after, d.list(t))
			}
			undone := d.undo(t, o.ID)
			condition(t, undone, bulk.Done, 11, 0, 11)
			same(t, before, d.list(t))
			twice, err := d.Undo(t.Context(), d.who, o.ID, nil)
			if err != nil || twice.ID != undone.ID {
				t.Errorf("undone twice: %+v, %v", twice, err)
			}
			d.undo(t, undone.ID) // redo
			same(t, after, d.list(t))
		})
	}
}

func TestDeleteForGood(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 7)
	d.createFiles(t, "/a/big", 30)
	all = append(all, d.at(t, "/a/big"), drive.NewID[drive.NodeID]())
	o := d.finish(t, d.create(t, bulk.Request{Kind: bulk.Delete, Items: all}).ID)
	condition(t, o, bulk.Done, 9, 1, 9)
	same(t, []string{"/a"}, d.list(t))
	same(t, []string{" not-found"}, d.codes(t, o.ID))
	_, err := d.Undo(t.Context(), d.who, o.ID, nil)
	wantKind(t, err, drive.WrongState)
	o = d.finish(t, d.create(t, bulk.Request{Kind: bulk.Delete, Items: all[:8]}).ID)
	condition(t, o, bulk.Done, 8, 0, 8) // gone is what was wanted
}

// An item that was in the trash when its deletion was requested, and that another request restores
// before its turn, stays, also when it was put into the trash again. A live item has no such limit.
func TestDeleteKeepsItemsRestoredConcurrently(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 5)
	restore := func(id drive.NodeID) {
		t.Helper()
		if _, err := d.files.Restore(t.Context(), d.who, id, drive.NodeID{}, drive.ConflictRename); err != nil {
			t.Fatal(err)
		}
	}
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: all[:4]}).ID)
	o := d.create(t, bulk.Request{Kind: bulk.Delete, Items: all})
	d.advance(time.Second)
	restore(all[0])
	restore(all[1])
	if _, err := d.files.Trash(t.Context(), d.who, all[1], tree.Expect{}); err != nil {
		t.Fatal(err)
	}
	condition(t, d.finish(t, o.ID), bulk.Done, 5, 2, 5)
	same(t, []string{"/a", "/a/f0"}, d.list(t))
	same(t, []string{"/a/f0 version-changed", "/a/f1 version-changed"}, d.codes(t, o.ID))
	restore(all[1])
	same(t, []string{"/a", "/a/f0", "/a/f1"}, d.list(t))

	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: all[:2]}).ID)
	o = d.create(t, bulk.Request{Kind: bulk.Delete, All: bulk.All{Trash: true}})
	restore(all[0])
	condition(t, d.finish(t, o.ID), bulk.Done, 2, 1, 2)
	same(t, []string{"/a", "/a/f0"}, d.list(t))
}

// A node inside a trashed folder has no trash time of its own: that of the nearest trashed folder
// above it counts. A folder's deletion keeps an item that was trashed before inside it, which the
// same operation deletes by its own time.
func TestDeleteComparesTrashTimeOfNearestFolder(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	folder, all := d.createFiles(t, "/a/b", 5)
	trash := func(id drive.NodeID) {
		t.Helper()
		if _, err := d.files.Trash(t.Context(), d.who, id, tree.Expect{}); err != nil {
			t.Fatal(err)
		}
		d.advance(time.Second)
	}
	restore := func(id drive.NodeID) {
		t.Helper()
		if _, err := d.files.Restore(t.Context(), d.who, id, drive.NodeID{}, drive.ConflictFail); err != nil {
			t.Fatal(err)
		}
	}
	trash(folder)
	o := d.create(t, bulk.Request{Kind: bulk.Delete, Items: all[:2]})
	restore(folder)
	condition(t, d.finish(t, o.ID), bulk.Done, 2, 2, 2)
	same(t, []string{"/a/b/f0 version-changed", "/a/b/f1 version-changed"}, d.codes(t, o.ID))

	trash(folder)
	o = d.create(t, bulk.Request{Kind: bulk.Delete, Items: all[:2]})
	restore(folder)
	trash(folder)
	condition(t, d.finish(t, o.ID), bulk.Done, 2, 2, 2)
	condition(t, d.finish(t, d.create(t, bulk.Request{Kind: bulk.Delete, Items: all[:2]}).ID), bulk.Done, 2, 0, 2)
	restore(folder)
	same(t, []string{"/a", "/a/b", "/a/b/f2", "/a/b/f3", "/a/b/f4"}, d.list(t))

	trash(all[2])
	trash(folder)
	condition(t, d.finish(t, d.create(t, bulk.Request{Kind: bulk.Delete, Items: []drive.NodeID{folder, all[2], all[3]}}).ID), bulk.Done, 3, 0, 3)
	same(t, []string{"/a"}, d.list(t))
}

// TrashedUntil keeps items that were restored, or put into the trash, after the caller had listed
// the trash.
func TestDeleteKeepsItemsTrashedAfterListing(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 5)
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: all[:3]}).ID)
	listed := drive.TimeOf(d.clock())
	d.advance(time.Second)
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Restore, Items: all[:2]}).ID)
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: all[1:2]}).ID)
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: all[4:]}).ID)
	o := d.create(t, bulk.Request{Kind: bulk.Delete, Items: all[:3], TrashedUntil: listed})
	condition(t, d.finish(t, o.ID), bulk.Done, 3, 2, 3)
	same(t, []string{"/a/f0 version-changed", "/a/f1 version-changed"}, d.codes(t, o.ID))
	condition(t, d.finish(t, d.create(t, bulk.Request{Kind: bulk.Delete, All: bulk.All{Trash: true}, TrashedUntil: listed}).ID), bulk.Done, 0, 0, 0)
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Restore, All: bulk.All{Trash: true}}).ID)
	same(t, []string{"/a", "/a/f0", "/a/f1", "/a/f3", "/a/f4"}, d.list(t))
	_, err := d.Create(t.Context(), d.who, bulk.Request{Kind: bulk.Trash, Items: all[:1], TrashedUntil: listed}, nil)
	wantKind(t, err, drive.BadRequest)
}

// A request above the limit of running operations does not read its items.
func TestLimitIsCheckedBeforeItemsAreRead(t *testing.T) {
	t.Parallel()
	opt := small
	opt.MaxRunning = 1
	var counter sqldbtest.Counter
	d := newFixtureAt(t, sqldbtest.OpenWith(t, sqldb.Options{Connector: counter.Connector}), treetest.Store(t), opt)
	_, all := d.createFiles(t, "/a", 40)
	d.create(t, bulk.Request{Kind: bulk.Trash, Items: all})
	before := counter.Total()
	_, err := d.Create(t.Context(), d.who, bulk.Request{Kind: bulk.Delete, Items: all}, nil)
	wantKind(t, err, drive.TooManyOpen)
	if n := counter.Total() - before; n != 1 {
		t.Errorf("refused after %d statements, want 1", n)
	}
}

func TestSharesAreEnded(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 8)
	ids := []drive.NodeID{}
	for _, n := range all {
		v, err := d.shares.Create(t.Context(), d.who, share.Request{Node: n}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, drive.NodeID(v.ID))
	}
	condition(t, d.finish(t, d.create(t, bulk.Request{Kind: bulk.Unshare, Items: ids[:5]}).ID), bulk.Done, 5, 0, 5)
	condition(t, d.finish(t, d.create(t, bulk.Request{Kind: bulk.Unshare, All: bulk.All{Shares: true}, Except: ids[7:]}).ID), bulk.Done, 2, 0, 2)
	left, err := d.shares.List(t.Context(), d.who, share.Query{Limit: 10})
	if err != nil || len(left) != 1 || drive.NodeID(left[0].ID) != ids[7] {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestAllSelectsChildrenOfFolder(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	folder, all := d.createFiles(t, "/a", 8)
	to := d.mkdir(t, "/a/to")
	o := d.create(t, bulk.Request{Kind: bulk.Move, All: bulk.All{ChildrenOf: folder}, Except: all[:2], Parent: to})
	condition(t, d.finish(t, o.ID), bulk.Done, 6, 0, 6) // without the folder itself that they go to
	same(t, []string{"/a", "/a/f0", "/a/f1", "/a/to", "/a/to/f2", "/a/to/f3", "/a/to/f4", "/a/to/f5", "/a/to/f6", "/a/to/f7"}, d.list(t))
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, All: bulk.All{ChildrenOf: to}}).ID)
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Restore, All: bulk.All{Trash: true}, Parent: d.root}).ID)
	same(t, []string{"/a", "/a/f0", "/a/f1", "/a/to", "/f2", "/f3", "/f4", "/f5", "/f6", "/f7"}, d.list(t))
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, All: bulk.All{ChildrenOf: d.root}}).ID)
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Delete, All: bulk.All{Trash: true}}).ID)
	same(t, nil, d.list(t))
	condition(t, d.create(t, bulk.Request{Kind: bulk.Delete, All: bulk.All{Trash: true}}), bulk.Done, 0, 0, 0)
}

// A refused item fails alone, is listed, and can be retried.
func TestFailuresAreListedAndRetried(t *testing.T) {
	t.Parallel()
	for _, kind := range []bulk.Kind{bulk.Move, bulk.Copy} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			d := newFixture(t, small)
			_, all := d.createFiles(t, "/a", 8)
			d.put(t, "/to/f1", "in the way")
			d.put(t, "/to/f5", "in the way")
			all = append(all, drive.NewID[drive.NodeID](), d.root)
			o := d.finish(t, d.create(t, bulk.Request{Kind: kind, Items: all, Parent: d.at(t, "/to")}).ID)
			condition(t, o, bulk.Done, 10, 4, 10)
			same(t, []string{"/a/f1 name-taken", "/a/f5 name-taken", " not-found", " bad-request"}, trimRoot(d.codes(t, o.ID)))
			d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: []drive.NodeID{d.at(t, "/to/f1")}}).ID)
			again, err := d.Retry(t.Context(), d.who, o.ID)
			if err != nil || again.ID != o.ID {
				t.Fatalf("tried again: %+v, %v", again, err)
			}
			condition(t, d.finish(t, o.ID), bulk.Done, 10, 3, 10)
			d.at(t, "/to/f1")
			d.undo(t, o.ID)
			_, err = d.Retry(t.Context(), d.who, o.ID)
			wantKind(t, err, drive.WrongState)
		})
	}
}

// trimRoot removes the root's path, which failures do not show.
func trimRoot(codes []string) []string {
	for i, c := range codes {
		if c == "/ bad-request" {
			codes[i] = " bad-request"
		}
	}
	return codes
}

func TestUndoKeepsLaterChanges(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 6)
	to := d.mkdir(t, "/to")
	o := d.finish(t, d.create(t, bulk.Request{Kind: bulk.Move, Items: all, Parent: to}).ID)
	rename := func(id drive.NodeID, p files.Patch) {
		t.Helper()
		if _, err := d.files.Patch(t.Context(), d.who, id, p); err != nil {
			t.Fatal(err)
		}
	}
	rename(all[0], files.Patch{Name: "mine"})
	rename(all[1], files.Patch{Parent: d.at(t, "/a")}) // it is back already
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Delete, Items: all[2:3]}).ID)
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: all[3:4]}).ID)
	d.put(t, "/a/f4", "somebody has taken the name")
	u := d.undo(t, o.ID)
	condition(t, u, bulk.Done, 6, 3, 6)
	same(t, []string{"/a", "/a/f1", "/a/f4", "/a/f4 (2)", "/a/f5", "/to", "/to/mine"}, d.list(t))
	same(t, []string{"/to/f3 version-changed", " not-found", "/to/mine version-changed"}, d.codes(t, u.ID))

	o = d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: all[4:]}).ID)
	d.advance(time.Second)
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Restore, Items: all[4:]}).ID)
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: all[4:5]}).ID)
	condition(t, d.undo(t, o.ID), bulk.Done, 2, 1, 2) // one was trashed again since
}

// Undoing a move restores the node that it replaced.
func TestUndoRestoresReplacedNode(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 5)
	d.put(t, "/to/f1", "older")
	old := d.at(t, "/to/f1")
	before := d.list(t)
	o := d.finish(t, d.create(t, bulk.Request{Kind: bulk.Move, Items: all, Parent: d.at(t, "/to"), Conflict: drive.ConflictReplace}).ID)
	condition(t, o, bulk.Done, 5, 0, 5)
	if d.at(t, "/to/f1") != all[1] {
		t.Error("nothing was replaced")
	}
	d.undo(t, o.ID)
	same(t, before, d.list(t))
	if d.at(t, "/to/f1") != old {
		t.Error("what was replaced is not back")
	}
}

// Items of one name that replaced each other return to their places one after the other.
func TestUndoOfItemsThatReplacedEachOther(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	var items []drive.NodeID
	for _, folder := range []string{"/a", "/b", "/c"} {
		d.put(t, folder+"/f", folder)
		items = append(items, d.at(t, folder+"/f"))
	}
	d.put(t, "/to/f", "older")
	before := d.list(t)
	o := d.finish(t, d.create(t, bulk.Request{Kind: bulk.Move, Items: items, Parent: d.at(t, "/to"), Conflict: drive.ConflictReplace}).ID)
	condition(t, o, bulk.Done, 3, 0, 3)
	condition(t, d.undo(t, o.ID), bulk.Done, 3, 0, 3)
	same(t, before, d.list(t))
	for i, folder := range []string{"/a", "/b", "/c"} {
		if d.at(t, folder+"/f") != items[i] {
			t.Errorf("in %s lies another one", folder)
		}
	}
}

// A folder and its contents, trashed together, are restored together.
func TestUndoRestoresFoldersBeforeContents(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a/b", 4)
	before := d.list(t)
	items := append(all[:2:2], d.at(t, "/a/b"), d.at(t, "/a"), all[3])
	o := d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: items}).ID)
	condition(t, o, bulk.Done, 5, 0, 5)
	same(t, nil, d.list(t))
	condition(t, d.undo(t, o.ID), bulk.Done, 4, 0, 4) // the last one lay in the trash with its folder
	same(t, before, d.list(t))
}

func TestRetryContinuesCancelledOperation(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 9)
	d.createFiles(t, "/a/big", 20)
	all = slices.Insert(all, 4, d.at(t, "/a/big"))
	before := d.list(t)
	for _, kind := range []bulk.Kind{bulk.Copy, bulk.Delete} {
		in := bulk.Request{Kind: kind, Items: all}
		if kind == bulk.Copy {
			in.Parent = d.mkdir(t, "/to")
		}
		o := d.create(t, in)
		for range 2 { // up to the middle of the big folder
			if _, err := d.Run(t.Context(), o.ID); err != nil {
				t.Fatal(err)
			}
		}
		o, err := d.Cancel(t.Context(), d.who, o.ID)
		if err != nil || o.State != bulk.Running {
			t.Fatalf("%s is %+v, %v", kind, o, err)
		}
		done := int64(4)
		if kind == bulk.Delete { // half of a folder is of no use to anybody
			done++
		}
		o = d.finish(t, o.ID)
		condition(t, o, bulk.Cancelled, done, 0, 10)
		if kind == bulk.Copy {
			same(t, append(slices.Clone(before), "/to", "/to/f0", "/to/f1", "/to/f2", "/to/f3"), d.list(t))
		}
		if again, err := d.Cancel(t.Context(), d.who, o.ID); err != nil || again.State != bulk.Cancelled {
			t.Errorf("cancelled again: %+v, %v", again, err)
		}
		if _, err := d.Retry(t.Context(), d.who, o.ID); err != nil {
			t.Fatal(err)
		}
		condition(t, d.finish(t, o.ID), bulk.Done, 10, 0, 10)
	}
}

func TestUndoStopsRunningOperation(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 20)
	d.createFiles(t, "/a/big", 20)
	before := d.list(t)
	all = slices.Insert(all, 4, d.at(t, "/a/big"))
	to := d.mkdir(t, "/to")
	for _, in := range []bulk.Request{{Kind: bulk.Trash, Items: all}, {Kind: bulk.Copy, Items: all, Parent: to}} {
		o := d.create(t, in)
		if _, err := d.Run(t.Context(), o.ID); err != nil {
			t.Fatal(err)
		}
		d.undo(t, o.ID)
		got, err := d.Get(t.Context(), d.who, o.ID)
		if err != nil || got.State != bulk.Cancelled || got.Done == 0 || got.Done == got.Total {
			t.Errorf("what was undone is %+v, %v", got, err)
		}
		same(t, append(slices.Clone(before), "/to"), d.list(t))
	}
}

// Operations of one account run one after the other; those of another account do not wait.
func TestOperationsOfAccountRunInOrder(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	other := newFixtureAt(t, d.db, d.store, small)
	_, all := d.createFiles(t, "/a", 20)
	_, theirs := other.createFiles(t, "/a", 2)
	first := d.create(t, bulk.Request{Kind: bulk.Trash, Items: all})
	second := d.create(t, bulk.Request{Kind: bulk.Restore, Items: all})
	if p, err := d.Run(t.Context(), second.ID); err != nil || p != bulk.Blocked {
		t.Errorf("the second one: %v, %v", p, err)
	}
	o := other.create(t, bulk.Request{Kind: bulk.Trash, Items: theirs})
	condition(t, other.finish(t, o.ID), bulk.Done, 2, 0, 2)
	if p, err := d.Run(t.Context(), first.ID); err != nil || p != bulk.Continue {
		t.Errorf("a slice of the first one: %v, %v", p, err)
	}
	d.started = nil
	d.finish(t, first.ID)
	if !slices.Contains(d.started, second.ID) {
		t.Errorf("the end of the first one started %v", d.started)
	}
	condition(t, d.finish(t, second.ID), bulk.Done, 20, 0, 20)
	if len(d.list(t)) != 21 {
		t.Errorf("the drive has %v", d.list(t))
	}
}

func TestConcurrentRunsDoEachItemOnce(t *testing.T) {
	t.Parallel()
	d := newFixture(t, bulk.Options{ItemsPerTransaction: 3, TransactionsPerRun: 100, MaxImmediate: -1})
	_, all := d.createFiles(t, "/a", 30)
	d.createFiles(t, "/a/big", 20)
	all = append(all, d.at(t, "/a/big"))
	o := d.create(t, bulk.Request{Kind: bulk.Copy, Items: all, Parent: d.mkdir(t, "/to")})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			if _, err := d.Run(t.Context(), o.ID); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	condition(t, d.finish(t, o.ID), bulk.Done, 31, 0, 31)
	if got := d.listBelow(t, d.at(t, "/to")); len(got) != 51 {
		t.Errorf("%d copies: %v", len(got), got)
	}
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	folder, all := d.createFiles(t, "/a", 3)
	gone := d.mkdir(t, "/gone")
	d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: []drive.NodeID{gone}}).ID)
	in := bulk.All{ChildrenOf: folder}
	for what, c := range map[string]struct {
		in   bulk.Request
		kind drive.Kind
	}{
		"nothing":             {bulk.Request{Kind: bulk.Trash}, drive.BadRequest},
		"both":                {bulk.Request{Kind: bulk.Trash, Items: all, All: in}, drive.BadRequest},
		"except of items":     {bulk.Request{Kind: bulk.Trash, Items: all, Except: all}, drive.BadRequest},
		"a place to trash to": {bulk.Request{Kind: bulk.Trash, Items: all, Parent: folder}, drive.BadRequest},
		"no place":            {bulk.Request{Kind: bulk.Move, Items: all}, drive.BadRequest},
		"a trashed place":     {bulk.Request{Kind: bulk.Move, Items: all, Parent: gone}, drive.ParentGone},
		"a file as place":     {bulk.Request{Kind: bulk.Move, Items: all, Parent: all[0]}, drive.ParentGone},
		"no folder":           {bulk.Request{Kind: bulk.Trash, All: bulk.All{ChildrenOf: drive.NewID[drive.NodeID]()}}, drive.NotFound},
		"all of a file":       {bulk.Request{Kind: bulk.Trash, All: bulk.All{ChildrenOf: all[0]}}, drive.BadRequest},
		"moving the trash":    {bulk.Request{Kind: bulk.Trash, All: bulk.All{Trash: true}}, drive.BadRequest},
		"shares to trash":     {bulk.Request{Kind: bulk.Trash, All: bulk.All{Shares: true}}, drive.BadRequest},
		"a folder to unshare": {bulk.Request{Kind: bulk.Unshare, All: in}, drive.BadRequest},
		"too many":            {bulk.Request{Kind: bulk.Trash, Items: make([]drive.NodeID, bulk.MaxItems+1)}, drive.TooLarge},
	} {
		if _, err := d.Create(t.Context(), d.who, c.in, nil); !drive.IsKind(err, c.kind) {
			t.Errorf("%s: %v", what, err)
		}
	}
	theirs := newFixtureAt(t, d.db, d.store, small)
	o := theirs.finish(t, theirs.create(t, bulk.Request{Kind: bulk.Trash, Items: all}).ID)
	condition(t, o, bulk.Done, 3, 3, 3) // somebody else's are not there
	for _, f := range theirs.codes(t, o.ID) {
		if f != " not-found" {
			t.Errorf("somebody else's file: %q", f)
		}
	}
	for what, err := range map[string]error{
		"get": second(d.Get(t.Context(), d.who, o.ID)), "cancel": second(d.Cancel(t.Context(), d.who, o.ID)),
		"retry": second(d.Retry(t.Context(), d.who, o.ID)), "undo": second(d.Undo(t.Context(), d.who, o.ID, nil)),
	} {
		if !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s of somebody else's operation: %v", what, err)
		}
	}
	_, _, err := theirs.Failures(t.Context(), theirs.who, o.ID, "x", 10)
	wantKind(t, err, drive.CursorInvalid)
}

func second[T any](_ T, err error) error { return err }

// Running operations and stored items per account are limited; the oldest are deleted, except those
// that an undo reads.
func TestOldOperationsAreEvicted(t *testing.T) {
	t.Parallel()
	d := newFixture(t, bulk.Options{ItemsPerTransaction: 3, TransactionsPerRun: 2, MaxImmediate: -1, MaxRunning: 2, MaxStoredItems: 20})
	_, all := d.createFiles(t, "/a", 8)
	first := d.create(t, bulk.Request{Kind: bulk.Trash, Items: all})
	d.create(t, bulk.Request{Kind: bulk.Restore, Items: all})
	_, err := d.Create(t.Context(), d.who, bulk.Request{Kind: bulk.Trash, Items: all}, nil)
	wantKind(t, err, drive.TooManyOpen)
	d.finish(t, first.ID)
	undo, err := d.Undo(t.Context(), d.who, first.ID, nil) // 24 items
	if err != nil {
		t.Fatal(err)
	}
	listed := func() (ids []drive.OperationID) {
		t.Helper()
		some, err := d.List(t.Context(), d.who, drive.OperationID{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range some {
			ids = append(ids, o.ID)
		}
		return ids
	}
	if got := listed(); len(got) != 3 || !slices.Contains(got, first.ID) {
		t.Errorf("there are %v", got)
	}
	d.finish(t, undo.ID)
	last := d.create(t, bulk.Request{Kind: bulk.Trash, Items: all})
	if got := listed(); len(got) != 2 || got[0] != last.ID {
		t.Errorf("there are %v", got)
	}
	d.finish(t, last.ID)
	d.advance(7*24*time.Hour + time.Hour)
	if more, err := d.Purge(t.Context()); err != nil || more || len(listed()) != 0 {
		t.Errorf("after a week there are %v, %v, %v", listed(), more, err)
	}
	d.balance(t)
}

func TestForgetDeletesAllRows(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 8)
	o := d.create(t, bulk.Request{Kind: bulk.Trash, Items: all})
	if err := d.DeleteAccount(t.Context(), d.who.Account); err != nil {
		t.Fatal(err)
	}
	_, err := d.Run(t.Context(), o.ID)
	wantKind(t, err, drive.NotFound)
	var n int
	if err := d.db.QueryRow(t.Context(), "SELECT (SELECT COUNT(*) FROM bulks) + (SELECT COUNT(*) FROM bulk_items)").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows are left, %v", n, err)
	}
}

// Get restarts an operation that has not been updated for a while.
func TestGetRestartsSilentOperation(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 8)
	o := d.create(t, bulk.Request{Kind: bulk.Trash, Items: all})
	d.started = nil
	for _, wait := range []time.Duration{time.Second, time.Minute} {
		d.advance(wait)
		if _, err := d.Get(t.Context(), d.who, o.ID); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(d.started, []drive.OperationID{o.ID}) {
		t.Errorf("started %v", d.started)
	}
}

// An operation of package files is shown as an operation too.
func TestSubtreeOperationIsShown(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	folder, _ := d.createFiles(t, "/a", 30)
	op, err := d.files.DeletePermanently(t.Context(), d.who, folder, tree.Expect{})
	if err != nil || op == nil {
		t.Fatal(op, err)
	}
	o, err := d.Get(t.Context(), d.who, op.ID)
	if err != nil || o.Kind != bulk.Subtree || o.State != bulk.Running || o.Total == 0 || o.CreatedAt == 0 {
		t.Errorf("shown as %+v, %v", o, err)
	}
}

// The quota is checked per item: copies that fit are made.
func TestCopiesBeyondQuotaFailAlone(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 6) // 36 bytes
	d.createFiles(t, "/a/big", 8)       // 48
	d.put(t, "/a/0", "x")
	all = slices.Insert(all, 2, d.at(t, "/a/big"))
	all = append(all, d.at(t, "/a/0"))
	d.limit(t, 36+48+1+30+1)
	o := d.finish(t, d.create(t, bulk.Request{Kind: bulk.Copy, Items: all, Parent: d.mkdir(t, "/to")}).ID)
	condition(t, o, bulk.Done, 8, 2, 8)
	same(t, []string{"/to/0", "/to/f0", "/to/f1", "/to/f2", "/to/f3", "/to/f4"}, d.listBelow(t, d.at(t, "/to")))
	same(t, []string{"/a/big quota", "/a/f5 quota"}, d.codes(t, o.ID))
}

// An item that fails unexpectedly is recorded as a failure and does not block the others.
func TestUnexpectedItemErrorIsFailure(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 8)
	broken := tree.New(tree.Options{Now: d.clock, OnEffect: d.told, OnPlaced: func(_ context.Context, _ *sqldb.Tx, n tree.Node) error {
		if n.ID == all[4] {
			return errDied
		}
		return nil
	}})
	b := bulk.New(bulk.Options{DB: d.db, Tree: broken, Files: d.files, Shares: d.shares, ItemsPerTransaction: 3, MaxImmediate: -1, Now: d.clock})
	o, err := b.Create(t.Context(), d.who, bulk.Request{Kind: bulk.Move, Items: all, Parent: d.root}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := b.Run(t.Context(), o.ID); err != nil || p != bulk.Ended {
		t.Fatal(p, err)
	}
	same(t, []string{"/a/f4 internal"}, d.codes(t, o.ID))
	if _, err := d.Retry(t.Context(), d.who, o.ID); err != nil {
		t.Fatal(err)
	}
	condition(t, d.finish(t, o.ID), bulk.Done, 8, 0, 8)
}

func TestFailingHookRollsBackCreate(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	_, all := d.createFiles(t, "/a", 4)
	hook := func(context.Context, *sqldb.Tx, bulk.Operation) error { return errDied }
	if _, err := d.Create(t.Context(), d.who, bulk.Request{Kind: bulk.Trash, Items: all}, hook); err == nil {
		t.Error("it was made")
	}
	o := d.finish(t, d.create(t, bulk.Request{Kind: bulk.Trash, Items: all}).ID)
	if _, err := d.Undo(t.Context(), d.who, o.ID, hook); err == nil {
		t.Error("it was undone")
	}
	list, err := d.List(t.Context(), d.who, drive.OperationID{}, 10)
	if err != nil || len(list) != 1 || !list[0].Undoable {
		t.Errorf("there are %+v, %v", list, err)
	}
}
