package files_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
)

// expiringContext is a context that ends after a number of calls of Err, as if the process died
// between two batches.
type expiringContext struct {
	context.Context
	mu   sync.Mutex
	left int
}

func (d *expiringContext) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left < 0 {
		return context.Canceled
	}
	return nil
}

// makeBigFolder creates a folder of 61 nodes.
func (f *fixture) makeBigFolder(t tb, name string) files.NodeView {
	t.Helper()
	for i := range 40 {
		f.put(t, fmt.Sprintf("/%s/%d/%d/f%d", name, i%4, i%20, i), fmt.Sprint("text ", i%7))
	}
	return f.get(t, "/"+name)
}

var small = files.Options{Direct: 10, Batch: 7}

// finish runs an operation to its end with many interruptions and returns its final state.
func (f *fixture) finish(t tb, id drive.OperationID) files.Operation {
	t.Helper()
	last := files.Operation{}
	for lives := 2; ; lives++ {
		f.checkInvariants(t)
		o, err := f.Operations.Find(t.Context(), f.who, id)
		if err != nil {
			t.Fatal(err)
		}
		if o.Done < last.Done && o.Error == "" || o.Total < o.Done {
			t.Errorf("progress went from %+v to %+v", last, o)
		}
		if last = o; o.State != files.Running {
			return o
		}
		err = f.Operations.Run(&expiringContext{Context: t.Context(), left: lives % 9}, id)
		if err != nil && !drive.IsKind(err, drive.Unavailable) {
			t.Fatal(err)
		}
	}
}

func TestBigCopy(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	src := d.makeBigFolder(t, "src")
	before := d.ls(t)
	var hooked files.Result
	hook := func(_ context.Context, _ *sqldb.Tx, r files.Result) error { hooked = r; return nil }
	r, err := d.Copies.Copy(t.Context(), d.who, src.ID, files.Copy{Parent: d.root, Name: "dst", Hook: hook})
	if err != nil || r.Operation == nil || r.Node != nil || hooked.Operation == nil || !slices.Equal(d.started, []drive.OperationID{r.Operation.ID}) {
		t.Fatalf("got %+v, %v; hooked %+v, started %v", r, err, hooked, d.started)
	}
	if diff := cmp.Diff(before, d.ls(t)); diff != "" {
		t.Errorf("half a copy is visible:\n%s", diff)
	}
	running, err := d.Operations.ListRunning(t.Context(), drive.OperationID{}, 10)
	if err != nil || !slices.Equal(running, d.started) {
		t.Errorf("running: %v, %v", running, err)
	}
	if o := d.finish(t, r.Operation.ID); o.State != files.Done || o.Done != 65 || o.Total != 65 {
		t.Errorf("ended as %+v", o)
	}
	d.sameBelow(t, "/src", "/dst")
}

// TestCopyRefusesToReplaceItsSource: a folder must not be trashed to be replaced by its own copy.
func TestCopyRefusesToReplaceItsSource(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	d.put(t, "/src/file", "text")
	before := d.ls(t)
	src := d.get(t, "/src")
	for _, name := range []drive.Name{"", "src"} {
		_, err := d.Copies.Copy(t.Context(), d.who, src.ID, files.Copy{Parent: d.root, Name: name, Conflict: drive.ConflictReplace})
		if !drive.IsKind(err, drive.Cycle) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if after := d.get(t, "/src"); after.ID != src.ID {
		t.Errorf("%v is %v now", src.ID, after.ID)
	}
	if diff := cmp.Diff(before, d.ls(t)); diff != "" {
		t.Errorf("something has changed:\n%s", diff)
	}
}

// sameBelow compares two folders by the paths and contents below them.
func (f *fixture) sameBelow(t tb, a, b string) {
	t.Helper()
	want, got := f.lsBelow(t, f.get(t, a).ID), f.lsBelow(t, f.get(t, b).ID)
	if len(want) != len(got) || len(want) == 0 {
		t.Fatalf("%s has %d nodes, %s has %d", a, len(want), b, len(got))
	}
	for i := range want {
		x, y := f.get(t, want[i]), f.get(t, got[i])
		if strings.TrimPrefix(x.Path, a) != strings.TrimPrefix(y.Path, b) || x.Digests["blake3"] != y.Digests["blake3"] || x.MTime != y.MTime {
			t.Errorf("%s and %s differ", x.Path, y.Path)
		}
	}
}

func TestConcurrentRunsOfOneOperation(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	r, err := d.Copies.Copy(t.Context(), d.who, d.makeBigFolder(t, "src").ID, files.Copy{Parent: d.root, Name: "dst"})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := d.Operations.Run(t.Context(), r.Operation.ID); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d.checkInvariants(t)
	d.sameBelow(t, "/src", "/dst")
}

func TestBigDelete(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	big := d.makeBigFolder(t, "big")
	kept := d.put(t, "/kept", "text 1") // shares content with some of what goes
	op, err := d.DeletePermanently(t.Context(), d.who, big.ID, tree.Expect{})
	if err != nil || op == nil {
		t.Fatalf("got %+v, %v", op, err)
	}
	if again, err := d.DeletePermanently(t.Context(), d.who, big.ID, tree.Expect{}); again != nil || err != nil {
		t.Errorf("deleting again: %+v, %v", again, err)
	}
	_, err = d.Restore(t.Context(), d.who, big.ID, drive.NodeID{}, "")
	wantKind(t, err, drive.NotFound)
	if o := d.finish(t, op.ID); o.State != files.Done || o.Done != 65 || o.Total != 65 {
		t.Errorf("ended as %+v", o)
	}
	if got := d.read(t, kept.ID); got != "text 1" {
		t.Errorf("the file that stays reads %q", got)
	}
	if diff := cmp.Diff([]string{"/kept"}, d.ls(t)); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyBigTrash(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	for _, name := range []string{"one", "two"} {
		inner := d.makeBigFolder(t, name)
		if _, err := d.Trash(t.Context(), d.who, d.get(t, "/"+name+"/1/1/f1").ID, tree.Expect{}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Trash(t.Context(), d.who, inner.ID, tree.Expect{}); err != nil {
			t.Fatal(err)
		}
	}
	op, err := d.EmptyTrash(t.Context(), d.who, "")
	if err != nil || op == nil {
		t.Fatalf("got %+v, %v", op, err)
	}
	d.now = d.now.Add(1e9)
	if _, err := d.Trash(t.Context(), d.who, d.put(t, "/later", "x").ID, tree.Expect{}); err != nil {
		t.Fatal(err)
	}
	if o := d.finish(t, op.ID); o.State != files.Done || o.Done != 130 {
		t.Errorf("ended as %+v", o)
	}
	trash, err := d.ListTrash(t.Context(), d.who, "", tree.List{})
	if err != nil || len(trash.Items) != 1 || trash.Items[0].Path != "/later" {
		t.Errorf("the trash holds %+v, %v", trash.Items, err)
	}
}

func TestFailedCopyLeavesNothing(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		direct int64
		spoil  func(d *fixture, t tb)
		kind   drive.Kind
	}{
		"quota, in the background": {10, func(d *fixture, t tb) { d.limit(t, 300) }, drive.Quota},
		"name taken meanwhile":     {10, func(d *fixture, t tb) { d.put(t, "/to/dst", "x") }, drive.NameTaken},
		"folder trashed meanwhile": {10, func(d *fixture, t tb) {
			if _, err := d.Trash(t.Context(), d.who, d.get(t, "/to").ID, tree.Expect{}); err != nil {
				t.Fatal(err)
			}
		}, drive.ParentGone},
		"folder deleted meanwhile": {10, func(d *fixture, t tb) {
			if _, err := d.DeletePermanently(t.Context(), d.who, d.get(t, "/to").ID, tree.Expect{}); err != nil {
				t.Fatal(err)
			}
		}, drive.ParentGone},
		"quota, while the caller waits": {1000, nil, drive.Quota},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t, files.Options{Direct: c.direct, Batch: 7})
			src := d.makeBigFolder(t, "src")
			to, err := d.Mkdir(t.Context(), d.who, files.Mkdir{Name: "to"})
			if err != nil {
				t.Fatal(err)
			}
			if c.spoil == nil {
				d.limit(t, 300) // there are 40 files of 6 bytes
			}
			r, err := d.Copies.Copy(t.Context(), d.who, src.ID, files.Copy{Parent: to.Node.ID, Name: "dst"})
			if c.spoil == nil {
				wantKind(t, err, c.kind)
				var e *drive.Error
				if !errors.As(err, &e) || e.Args["needed"] == nil {
					t.Errorf("the error %v does not say what was needed", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				c.spoil(d, t)
				if o := d.finish(t, r.Operation.ID); o.State != files.Failed || o.Error != c.kind.String() {
					t.Errorf("ended as %+v", o)
				}
			}
			d.checkInvariants(t)
			var hidden int
			if err := d.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM nodes WHERE operation_id IS NOT NULL").Scan(&hidden); err != nil || hidden != 0 {
				t.Errorf("%d hidden nodes are left, %v", hidden, err)
			}
			d.sameBelow(t, "/src", "/src")
			if n := len(d.lsBelow(t, src.ID)); n != 64 {
				t.Errorf("the source has %d nodes left", n)
			}
		})
	}
}

func TestPurgeAccount(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	other := newFixtureAt(t, d.db, d.store, small)
	kept := other.put(t, "/kept", "text 1") // shares content with the account that goes
	if _, err := d.Copies.Copy(t.Context(), d.who, d.makeBigFolder(t, "src").ID, files.Copy{Parent: d.root, Name: "dst"}); err != nil {
		t.Fatal(err) // a copy is in progress
	}
	for _, at := range []string{"/src/1", "/src/2/2/f2"} {
		if _, err := d.Trash(t.Context(), d.who, d.get(t, at).ID, tree.Expect{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.DeletePermanently(t.Context(), d.who, d.get(t, "/src/3/3/f3").ID, tree.Expect{}); err != nil {
		t.Fatal(err) // leaves a tombstone
	}
	var err error
	for lives := 3; ; lives++ {
		d.checkInvariantsOf(t, lives == 3)
		if err = d.expiry.PurgeAccount(&expiringContext{Context: t.Context(), left: lives}, d.who.Account); !drive.IsKind(err, drive.Unavailable) || lives > 100 {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := d.expiry.PurgeAccount(t.Context(), d.who.Account); err != nil {
		t.Errorf("purging again: %v", err)
	}
	for _, table := range []string{"nodes", "versions", "tombstones", "trees", "operations"} {
		var n int
		if err := d.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM "+table+" WHERE account_id = ?", d.who.Account).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d %s are left, %v", n, table, err)
		}
	}
	other.checkInvariants(t)
	if got := other.read(t, kept.ID); got != "text 1" {
		t.Errorf("somebody else's file reads %q", got)
	}
}

// TestAbandonIgnoresErrorOfOtherStep: of two concurrent runs, an error of one only ends the copy if
// the copy is still at that step.
func TestAbandonIgnoresErrorOfOtherStep(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	src := d.makeBigFolder(t, "src")
	for _, c := range []struct {
		name  drive.Name
		shown bool
		state files.OperationState
	}{{"a", true, files.Done}, {"b", false, files.Failed}} {
		r, err := d.Copies.Copy(t.Context(), d.who, src.ID, files.Copy{Parent: d.root, Name: c.name})
		if err != nil || r.Operation == nil {
			t.Fatal(r, err)
		}
		if err := d.Copies.Abandon(t.Context(), r.Operation.ID, c.shown, drive.Fail(drive.Forbidden)); err != nil {
			t.Fatal(err)
		}
		if o := d.finish(t, r.Operation.ID); o.State != c.state {
			t.Errorf("%s ended as %+v", c.name, o)
		}
	}
	d.sameBelow(t, "/src", "/a")
}

// TestCopyWithoutQuotaIsRefusedEarly: a folder that does not fit is refused before anything is
// created. The rest of other running copies counts.
func TestCopyWithoutQuotaIsRefusedEarly(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		tree  tree.Options
		limit drive.ByteSize
		want  drive.Kind
	}{
		"nodes":             {tree: tree.Options{MaxNodes: 65 + 64}, want: drive.TooLarge},
		"changes of a day":  {tree: tree.Options{MaxChanges: 65 + 64}, want: drive.TooLarge},
		"bytes":             {limit: 240 + 239, want: drive.Quota},
		"nodes of two":      {tree: tree.Options{MaxNodes: 65 + 65 + 64}, want: drive.TooLarge},
		"bytes of two":      {limit: 240 + 240 + 239, want: drive.Quota},
		"room for both":     {tree: tree.Options{MaxNodes: 65 + 65 + 65}, limit: 240 + 240 + 240},
		"no limits for two": {},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newFixtureWithLimits(t, c.tree, small)
			src := d.makeBigFolder(t, "src")
			if c.limit > 0 {
				d.limit(t, c.limit)
			}
			rows := func() (n int) {
				t.Helper()
				if err := d.db.QueryRow(t.Context(), `SELECT (SELECT COUNT(*) FROM nodes) + (SELECT COUNT(*) FROM tombstones)
					+ (SELECT COUNT(*) FROM activity) + (SELECT COUNT(*) FROM operations)`).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			first := func() error {
				_, err := d.Copies.Copy(t.Context(), d.who, src.ID, files.Copy{Parent: d.root, Name: "first"})
				return err
			}
			if two := strings.HasSuffix(what, "two") || c.want == 0; two {
				if err := first(); err != nil { // continues in the background after creating some nodes
					t.Fatal(err)
				}
			}
			before := rows()
			_, err := d.Copies.Copy(t.Context(), d.who, src.ID, files.Copy{Parent: d.root, Name: "last"})
			if c.want == 0 && err != nil || c.want != 0 && !drive.IsKind(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if after := rows(); c.want != 0 && after != before {
				t.Errorf("%d rows are left by a copy that was refused", after-before)
			}
			d.checkInvariants(t)
		})
	}
}
