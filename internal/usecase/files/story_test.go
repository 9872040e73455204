package files_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
)

func TestUseCasesEndToEnd(t *testing.T) {
	t.Parallel()
	d := newFixture(t, files.Options{})
	ctx := t.Context()
	try := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		d.checkInvariants(t)
	}
	want := func(paths ...string) {
		t.Helper()
		if diff := cmp.Diff(paths, d.ls(t)); diff != "" {
			t.Fatalf("the drive differs (-want +got):\n%s", diff)
		}
	}
	_, err := d.Mkdir(ctx, d.who, files.Mkdir{Path: treetest.Path(t, "/a/b"), Parents: true, Name: "c"})
	try("mkdir", err)
	note := d.put(t, "/a/note.txt", "hello")
	want("/a", "/a/b", "/a/b/c", "/a/note.txt")

	_, err = d.Mkdir(ctx, d.who, files.Mkdir{Path: treetest.Path(t, "/a"), Name: "b"})
	wantKind(t, err, drive.NameTaken)
	_, err = d.Mkdir(ctx, d.who, files.Mkdir{Path: treetest.Path(t, "/nowhere"), Name: "b"})
	wantKind(t, err, drive.NotFound)

	twin, err := d.Copies.Copy(ctx, d.who, note.ID, files.Copy{Parent: note.Parent, Conflict: drive.ConflictRename})
	try("copy a file", err)
	if got := d.read(t, twin.Node.ID); got != "hello" || twin.Node.Path != "/a/note (2).txt" {
		t.Errorf("the copy at %s reads %q", twin.Node.Path, got)
	}
	tops, err := d.Copies.Copy(ctx, d.who, d.get(t, "/a").ID, files.Copy{Parent: d.get(t, "/a/b").ID, Name: "self"})
	try("copy a folder into itself", err)
	if tops.Operation != nil || tops.Node.Path != "/a/b/self" {
		t.Errorf("the copy of a small folder answered %+v", tops)
	}
	want("/a", "/a/b", "/a/b/c", "/a/b/self", "/a/b/self/b", "/a/b/self/b/c", "/a/b/self/note (2).txt", "/a/b/self/note.txt",
		"/a/note (2).txt", "/a/note.txt")

	moved, err := d.Patch(ctx, d.who, note.ID, files.Patch{Name: "memo.txt", Parent: d.root, Expect: tree.Expect{Rev: note.Rev}})
	try("move", err)
	again, err := d.Patch(ctx, d.who, note.ID, files.Patch{Name: "memo.txt", Parent: d.root, Expect: tree.Expect{Rev: note.Rev}})
	try("the same once more, its reply was lost", err)
	if again.Rev != moved.Rev {
		t.Errorf("doing it again changed %+v to %+v", moved, again)
	}
	_, err = d.Trash(ctx, d.who, note.ID, tree.Expect{Rev: note.Rev})
	wantKind(t, err, drive.Precondition)
	_, err = d.Patch(ctx, d.who, note.ID, files.Patch{Name: "other", Expect: tree.Expect{Rev: note.Rev}})
	wantKind(t, err, drive.Precondition)
	if moved.Path != "/memo.txt" || moved.Rev <= note.Rev || moved.Seq <= note.Seq {
		t.Errorf("moved to %+v", moved)
	}
	_, err = d.Patch(ctx, d.who, d.get(t, "/a").ID, files.Patch{Parent: d.get(t, "/a/b/self").ID})
	wantKind(t, err, drive.Cycle)

	folder := d.get(t, "/a/b")
	for range 2 {
		_, err = d.Trash(ctx, d.who, d.get(t, "/").ID, tree.Expect{})
		wantKind(t, err, drive.BadRequest)
		_, err = d.Trash(ctx, d.who, *tops.Node.ParentID, tree.Expect{Rev: folder.Rev})
		try("trash", err)
	}
	want("/a", "/a/note (2).txt", "/memo.txt")
	inTrash, err := d.Get(ctx, d.who, tops.Node.ID)
	if err != nil || inTrash.TrashedAt == nil || inTrash.Path != "/a/b/self" {
		t.Errorf("what lies in the trash is shown as %+v, %v", inTrash, err)
	}
	_, err = d.Copies.Copy(ctx, d.who, tops.Node.ID, files.Copy{Parent: d.root})
	wantKind(t, err, drive.WrongState)
	back, err := d.Restore(ctx, d.who, tops.Node.ID, drive.NodeID{}, "")
	try("restore what lay in a trashed folder", err)
	if back.Path != "/self" || back.TrashedAt != nil {
		t.Errorf("restored to %+v", back)
	}
	for range 2 { // the second run finds nothing to do
		op, err := d.EmptyTrash(ctx, d.who, "")
		if try("empty the trash", err); op != nil {
			t.Errorf("a small trash became %+v", op)
		}
		op, err = d.DeletePermanently(ctx, d.who, back.ID, tree.Expect{})
		if try("delete for good", err); op != nil {
			t.Errorf("a small folder became %+v", op)
		}
	}
	want("/a", "/a/note (2).txt", "/memo.txt")
	_, err = d.DeletePermanently(ctx, d.who, drive.NewID[drive.NodeID](), tree.Expect{})
	wantKind(t, err, drive.NotFound)
	if ops, err := d.Operations.ListRunning(ctx, drive.OperationID{}, 10); err != nil || len(ops) != 0 {
		t.Errorf("operations run: %v, %v", ops, err)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	d := newFixture(t, files.Options{})
	ctx := t.Context()
	first := d.put(t, "/f", "one")
	d.put(t, "/f", "two!")
	r, err := d.RestoreVersion(ctx, d.who, first.ID, first.Version, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.checkInvariants(t)
	if got := d.read(t, first.ID); got != "one" || r.Node.Size != 3 {
		t.Errorf("the file reads %q, shown as %+v", got, r.Node)
	}
	rev := r.Node.Rev
	r, err = d.RestoreVersion(ctx, d.who, first.ID, first.Version, nil) // retry after a lost response
	if err != nil || r.Node.Rev != rev {
		t.Errorf("restoring the same version again gave %+v, %v", r, err)
	}
	d.checkInvariants(t)
	r, err = d.RestoreVersion(ctx, d.who, first.ID, d.get(t, "/f").Version, nil)
	if err != nil || r.Node.Rev != rev {
		t.Errorf("restoring the current version gave %+v, %v", r, err)
	}
	page, err := d.Versions(ctx, d.who, first.ID, "", 2)
	if err != nil || len(page.Items) != 2 || page.NextCursor == nil || !page.Items[0].Current || page.Items[1].Current {
		t.Fatalf("versions: %+v, %v", page, err)
	}
	rest, err := d.Versions(ctx, d.who, first.ID, *page.NextCursor, 2)
	if err != nil || len(rest.Items) != 1 || rest.NextCursor != nil || rest.Items[0].ID != first.Version {
		t.Fatalf("the rest: %+v, %v", rest, err)
	}
	_, err = d.Versions(ctx, d.who, first.ID, "x", 2)
	wantKind(t, err, drive.CursorInvalid)
	old, err := d.Contents.Open(ctx, d.who, first.ID, page.Items[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil || old.Size() != 4 || old.Sum.String() != page.Items[1].Digests["blake3"] {
		t.Errorf("the old version has %d bytes and %v, %v", old.Size(), old.Sum, err)
	}
	d.limit(t, 10)
	if _, err := d.RestoreVersion(ctx, d.who, first.ID, page.Items[1].ID, nil); !drive.IsKind(err, drive.Quota) {
		t.Errorf("a version that does not fit: %v", err)
	}
	d.now = d.now.AddDate(0, 0, 31)
	out, err := d.expiry.Purge(ctx)
	if err != nil || out.Versions != 1 {
		t.Errorf("purged %+v, %v; want one version", out, err)
	}
	d.checkInvariants(t)
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	d := newFixture(t, files.Options{})
	ctx := t.Context()
	for i, at := range []string{"/old", "/young"} {
		d.now = d.now.Add(time.Duration(i) * 20 * time.Hour)
		if _, err := d.Trash(ctx, d.who, d.put(t, at, "x").ID, tree.Expect{}); err != nil {
			t.Fatal(err)
		}
	}
	d.now = d.now.Add(5 * time.Hour)
	out, err := d.expiry.Purge(ctx)
	if err != nil || out.Trees != 1 {
		t.Fatalf("purged %+v, %v", out, err)
	}
	d.checkInvariants(t)
	trash, err := d.ListTrash(ctx, d.who, "", tree.List{})
	if err != nil || len(trash.Items) != 1 || trash.Items[0].Path != "/young" {
		t.Errorf("the trash holds %+v, %v", trash.Items, err)
	}
	d.now = d.now.AddDate(0, 0, 91)
	if out, err = d.expiry.Purge(ctx); err != nil || out.Trees != 1 || out.Tombstones != 1 {
		t.Errorf("purged %+v, %v", out, err)
	}
	_, err = d.Changes(ctx, d.who, "", "1", 0)
	wantKind(t, err, drive.Gone)
}

func TestFailingHookRollsBack(t *testing.T) {
	t.Parallel()
	d := newFixture(t, files.Options{})
	n := d.put(t, "/dir/f", "text")
	taken := errors.New("another request has the key")
	hook := func(context.Context, *sqldb.Tx, files.Result) error { return taken }
	before := d.ls(t)
	_, err := d.Mkdir(t.Context(), d.who, files.Mkdir{Name: "new", Hook: hook})
	_, err2 := d.Copies.Copy(t.Context(), d.who, n.ID, files.Copy{Parent: d.root, Hook: hook})
	_, err3 := d.Copies.Copy(t.Context(), d.who, n.Parent, files.Copy{Parent: d.root, Name: "twin", Hook: hook})
	if !errors.Is(err, taken) || !errors.Is(err2, taken) || !errors.Is(err3, taken) || !slices.Equal(before, d.ls(t)) {
		t.Errorf("got %v, %v, %v and %v", err, err2, err3, d.ls(t))
	}
	d.checkInvariants(t)
}

func TestOtherDrivesAreNotFound(t *testing.T) {
	t.Parallel()
	mine := newFixture(t, files.Options{})
	theirs := newFixtureAt(t, mine.db, mine.store, files.Options{})
	n := theirs.put(t, "/secret", "x")
	ctx, who := t.Context(), mine.who
	errs := map[string]error{}
	_, errs["get"] = mine.Get(ctx, who, n.ID)
	_, errs["children"] = mine.Children(ctx, who, theirs.root, tree.List{})
	_, errs["patch"] = mine.Patch(ctx, who, n.ID, files.Patch{Name: "x"})
	_, errs["copy"] = mine.Copies.Copy(ctx, who, n.ID, files.Copy{Parent: mine.root})
	_, errs["trash"] = mine.Trash(ctx, who, n.ID, tree.Expect{})
	_, errs["delete"] = mine.DeletePermanently(ctx, who, n.ID, tree.Expect{})
	_, errs["restore"] = mine.Restore(ctx, who, n.ID, drive.NodeID{}, "")
	_, errs["open"] = mine.Contents.Open(ctx, who, n.ID, drive.VersionID{})
	_, errs["versions"] = mine.Versions(ctx, who, n.ID, "", 0)
	_, errs["restore version"] = mine.RestoreVersion(ctx, who, n.ID, n.Version, nil)
	_, errs["link"] = mine.links.Create(ctx, who, n.ID, time.Hour, files.Inline)
	for what, err := range errs {
		if !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s of somebody else's file: %v", what, err)
		}
	}
	if diff := cmp.Diff([]string{"/secret"}, theirs.ls(t)); diff != "" {
		t.Error(diff)
	}
}

func TestNodeViewShowsContent(t *testing.T) {
	t.Parallel()
	d := newFixture(t, files.Options{})
	d.put(t, "/dir/f", "abc")
	shown := d.get(t, "/dir/f")
	const blake3 = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85" // of "abc", by b3sum
	if shown.Name != "f" || shown.Path != "/dir/f" || shown.Size != 3 || shown.CreatedAt.String() != "2027-01-15T08:00:00.000Z" ||
		shown.TrashedAt != nil || shown.Digests["blake3"] != blake3 {
		t.Errorf("shown as %+v", shown)
	}
	root := d.get(t, "/")
	if root.ParentID != nil || root.Path != "/" || root.Name != "" {
		t.Errorf("the root is shown as %+v", root)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	d := newFixture(t, small)
	follow := func(after string) (shown map[string]string, next string) {
		t.Helper()
		shown = map[string]string{}
		for more := true; more; {
			page, err := d.Changes(t.Context(), d.who, "", after, 3)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range page.Items {
				switch {
				case c.Deleted != nil:
					shown[c.Deleted.String()] = "deleted"
				case c.Node.TrashedAt != nil:
					shown[c.Node.ID.String()] = "trashed " + c.Node.Path
				default:
					shown[c.Node.ID.String()] = c.Node.Path
				}
			}
			after, more = page.Next, page.More
		}
		return shown, after
	}
	want := func(got map[string]string, want map[drive.NodeID]string) {
		t.Helper()
		text := map[string]string{}
		for id, s := range want {
			text[id.String()] = s
		}
		if diff := cmp.Diff(text, got); diff != "" {
			t.Errorf("the feed differs (-want +got):\n%s", diff)
		}
	}
	n := d.put(t, "/a/f", "x")
	got, at := follow("")
	want(got, map[drive.NodeID]string{d.root: "/", n.Parent: "/a", n.ID: "/a/f"})
	if got, at = follow(at); len(got) != 0 {
		t.Errorf("nothing happened, and the feed shows %v", got)
	}
	if _, err := d.Trash(t.Context(), d.who, n.Parent, tree.Expect{}); err != nil {
		t.Fatal(err)
	}
	got, at = follow(at)
	want(got, map[drive.NodeID]string{n.Parent: "trashed /a"})
	if _, err := d.EmptyTrash(t.Context(), d.who, ""); err != nil {
		t.Fatal(err)
	}
	got, at = follow(at)
	want(got, map[drive.NodeID]string{n.Parent: "deleted", n.ID: "deleted"})

	big := d.makeBigFolder(t, "big")
	_, at = follow(at)
	op, err := d.DeletePermanently(t.Context(), d.who, big.ID, tree.Expect{})
	if err != nil || op == nil {
		t.Fatalf("got %v, %v", op, err)
	}
	if got, at = follow(at); got[big.ID.String()] != "trashed " {
		t.Errorf("what is being purged is shown as %q", got[big.ID.String()])
	}
	d.finish(t, op.ID)
	if got, _ = follow(at); got[big.ID.String()] != "deleted" {
		t.Errorf("what was purged is shown as %q", got[big.ID.String()])
	}
	for _, bad := range []string{"x", "-1", "01", "1.", "1.2.3"} {
		_, err := d.Changes(t.Context(), d.who, "", bad, 0)
		wantKind(t, err, drive.BadRequest)
	}
}

func TestPathsStayWithinLimitsWhenFoldersMove(t *testing.T) {
	t.Parallel()
	d := newFixture(t, files.Options{})
	d.put(t, strings.Repeat("/d", drive.MaxDepth-2)+"/f", "x")
	tall, err := d.Mkdir(t.Context(), d.who, files.Mkdir{Path: treetest.Path(t, "/x/y"), Parents: true, Name: "z"})
	if err != nil {
		t.Fatal(err)
	}
	x := d.get(t, "/x")
	_, err = d.Patch(t.Context(), d.who, x.ID, files.Patch{Parent: d.get(t, strings.Repeat("/d", drive.MaxDepth-2)).ID})
	wantKind(t, err, drive.BadName)
	if _, err = d.Patch(t.Context(), d.who, d.get(t, "/x/y").ID, files.Patch{Parent: d.get(t, strings.Repeat("/d", drive.MaxDepth-2)).ID}); err != nil {
		t.Errorf("what fits exactly was refused: %v", err)
	}
	if got, err := d.Get(t.Context(), d.who, tall.Node.ID); err != nil || got.Path != strings.Repeat("/d", drive.MaxDepth-2)+"/y/z" {
		t.Errorf("it is at %s, %v", got.Path, err)
	}
	if _, err := d.Patch(t.Context(), d.who, d.get(t, "/x").ID, files.Patch{Name: "longer"}); err != nil {
		t.Error(err)
	}
}
