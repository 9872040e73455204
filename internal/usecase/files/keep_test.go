package files_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
)

// changes maps each field of tree.Node that an operation changes to the reason.
type changes map[string]string

// and returns c with the fields of more.
func (c changes) and(more changes) changes {
	both := maps.Clone(c)
	maps.Copy(both, more)
	return both
}

var (
	written = changes{
		"Rev":     "counts the changes of one node",
		"Seq":     "numbers the changes of one account",
		"Updated": "the time of this write",
	}
	newFolder = written.and(changes{
		"ID":      "the copy is another node",
		"Parent":  "the copy is in another folder",
		"Created": "the copy is created now",
	})
	newFile    = newFolder.and(changes{"Version": "the version history of the copy begins"})
	otherPlace = changes{"Account": "the place belongs to another account", "Parent": "the place is another folder"}
	newContent = written.and(changes{
		"Version": "the content is a new version", "Blob": "of the new version", "Size": "of the new version",
		"Mime": "of the new version", "MTime": "of the new version",
	})
)

// unset maps each field that may be zero in the source of an operation to the reason.
var unset = map[tree.Type]changes{
	tree.TypeFile: {"Trashed": "the source is live", "Operation": "the source is live"},
	tree.TypeFolder: {
		"Trashed": "the source is live", "Operation": "the source is live",
		"Version": "of files", "Blob": "of files", "Size": "of files", "Mime": "of files",
	},
}

// TestNodesKeepTheirFields fills every field of a node, copies or changes the node in each way, and
// demands every field afterwards except those that the way changes. A field that is not kept and
// not listed is lost; a listed field that is kept needs no reason.
func TestNodesKeepTheirFields(t *testing.T) {
	t.Parallel()
	copyTo := func(path string) func(*testing.T, *fixture, tree.Node) tree.Node {
		return func(t *testing.T, d *fixture, src tree.Node) tree.Node {
			r, err := d.Copies.Copy(t.Context(), d.who, src.ID, files.Copy{Parent: d.get(t, "/to").ID})
			if err != nil || r.Node == nil {
				t.Fatalf("copy: %+v, %v", r, err)
			}
			return d.node(t, path)
		}
	}
	batchCopy := func(t *testing.T, d *fixture, src tree.Node) (made tree.Node) {
		to := d.get(t, "/to").ID
		var op drive.OperationID
		d.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			in := d.TxBatch(tx, d.who)
			if _, op, err = in.Copy(ctx, src.ID, files.Copy{Parent: to, Conflict: drive.ConflictFail}, tree.Extent{Levels: 1, Bytes: 5}); err != nil {
				return err
			}
			return in.ApplyRefs(ctx)
		})
		if !op.IsZero() {
			d.finish(t, op)
		}
		return d.node(t, "/to/"+string(src.Name))
	}
	moveAway := func(t *testing.T, d *fixture, src tree.Node) tree.Node {
		bob := newFixtureAt(t, d.db, d.store, files.Options{})
		bob.now = d.now
		d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := access.New(access.Options{DB: d.db}).Grant(ctx, tx, access.Grant{
				Node: d.get(t, "/src").ID, Account: d.who.Account, Principal: drive.PrincipalID(bob.who.User),
				Kind: access.User, Role: access.Manager, By: d.who.User,
			})
			return err
		})
		if r, err := bob.Copies.MoveAcrossAccounts(t.Context(), bob.who, src.ID, files.Copy{Parent: bob.root}); err != nil || r.Node == nil {
			t.Fatalf("move: %+v, %v", r, err)
		}
		return bob.node(t, "/"+string(src.Name))
	}
	handOver := func(t *testing.T, d *fixture, src tree.Node) tree.Node {
		to := newFixtureAt(t, d.db, d.store, files.Options{})
		to.now = d.now
		d.finish(t, d.beginHandover(t, to))
		return to.node(t, "/Files of d/src/"+string(src.Name))
	}
	edit := func(p func(*fixture) files.Patch) func(*testing.T, *fixture, tree.Node) tree.Node {
		return func(t *testing.T, d *fixture, src tree.Node) tree.Node {
			n, err := d.Patch(t.Context(), d.who, src.ID, p(d))
			if err != nil {
				t.Fatal(err)
			}
			return d.node(t, n.Path)
		}
	}
	move := edit(func(d *fixture) files.Patch { return files.Patch{Parent: d.root} })
	rename := edit(func(*fixture) files.Patch { return files.Patch{Name: "renamed"} })
	restore := func(t *testing.T, d *fixture, src tree.Node) tree.Node {
		if _, err := d.Trash(t.Context(), d.who, src.ID, tree.Expect{}); err != nil {
			t.Fatal(err)
		}
		n, err := d.Restore(t.Context(), d.who, src.ID, drive.NodeID{}, "")
		if err != nil {
			t.Fatal(err)
		}
		return d.node(t, n.Path)
	}
	named, moved := changes{"Name": "the new name"}, changes{"Parent": "the new folder"}
	for what, c := range map[string]struct {
		src   string
		do    func(*testing.T, *fixture, tree.Node) tree.Node
		other changes
		below string // the descendant of src that the result is compared with; empty: src itself
	}{
		"copy of a file":                      {"/src/file", copyTo("/to/file"), newFile, ""},
		"copy of a folder":                    {"/src/sub", copyTo("/to/sub"), newFolder, ""},
		"copy of a file in a copied folder":   {"/src/sub", copyTo("/to/sub/file"), newFile, "/file"},
		"copy of a folder in a copied folder": {"/src/sub", copyTo("/to/sub/sub"), newFolder, "/sub"},
		"batch copy of a file":                {"/src/file", batchCopy, newFile, ""},
		"batch copy of a folder":              {"/src/sub", batchCopy, newFolder, ""},
		"move of a file across accounts":      {"/src/file", moveAway, newFile.and(otherPlace), ""},
		"move of a folder across accounts":    {"/src/sub", moveAway, newFolder.and(otherPlace), ""},
		"handover of a file":                  {"/src/file", handOver, written.and(otherPlace), ""},
		"handover of a folder": {"/src/sub", handOver, written.and(otherPlace).and(changes{
			"ID": "a folder cannot be in two accounts while its children move",
		}), ""},
		"move of a file":      {"/src/file", move, written.and(moved), ""},
		"move of a folder":    {"/src/sub", move, written.and(moved), ""},
		"rename of a file":    {"/src/file", rename, written.and(named), ""},
		"rename of a folder":  {"/src/sub", rename, written.and(named), ""},
		"restore of a file":   {"/src/file", restore, written, ""},
		"restore of a folder": {"/src/sub", restore, written, ""},
		"new modification time": {"/src/file", edit(func(d *fixture) files.Patch {
			return files.Patch{MTime: drive.Time(d.now.UnixMilli())}
		}), written.and(changes{"MTime": "the new time"}), ""},
		"upload of a new version": {"/src/file", func(t *testing.T, d *fixture, _ tree.Node) tree.Node {
			n, err := d.drive().Put(t, "/src/file", "another content", tree.File{Conflict: drive.ConflictReplace, Mime: "text/html"})
			if err != nil {
				t.Fatal(err)
			}
			return d.node(t, "/src/"+string(n.Name))
		}, newContent, ""},
		"replacement by a copy": {"/src/file", func(t *testing.T, d *fixture, src tree.Node) tree.Node {
			_, err := d.Copies.Copy(t.Context(), d.who, d.other(t).ID, files.Copy{Parent: src.Parent, Name: src.Name, Conflict: drive.ConflictReplace})
			if err != nil {
				t.Fatal(err)
			}
			return d.node(t, "/src/file")
		}, newContent, ""},
		"replacement by a renamed file": {"/src/file", func(t *testing.T, d *fixture, src tree.Node) tree.Node {
			n, err := d.Supersede(t.Context(), d.who, d.other(t).ID, src.ID, tree.Expect{})
			if err != nil {
				t.Fatal(err)
			}
			return d.node(t, n.Path)
		}, newContent, ""},
		"restore of a version": {"/src/file", func(t *testing.T, d *fixture, src tree.Node) tree.Node {
			versions, err := d.Versions(t.Context(), d.who, src.ID, "", 2)
			if err != nil || len(versions.Items) != 2 {
				t.Fatalf("versions: %+v, %v", versions, err)
			}
			if _, err := d.RestoreVersion(t.Context(), d.who, src.ID, versions.Items[1].ID, nil); err != nil {
				t.Fatal(err)
			}
			return d.node(t, "/src/file")
		}, newContent, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t, files.Options{})
			d.fillTree(t)
			src := d.node(t, c.src)
			d.now = d.now.Add(time.Hour)
			got := c.do(t, d, src)
			if c.below != "" {
				src = d.node(t, c.src+c.below)
			}
			checkKept(t, src, got, c.other)
		})
	}
}

// checkKept demands that got has every field of src except the changed ones, that those do differ,
// and that src has every field.
func checkKept(t *testing.T, src, got tree.Node, changed changes) {
	t.Helper()
	was, is := reflect.ValueOf(src), reflect.ValueOf(got)
	for i := range was.NumField() {
		field := was.Type().Field(i).Name
		before, after := was.Field(i).Interface(), is.Field(i).Interface()
		why, listed := changed[field]
		switch {
		case was.Field(i).IsZero() && unset[src.Type][field] == "":
			t.Errorf("%s of the source is not set: is it a column that scanNode reads?", field)
		case before != after && !listed:
			t.Errorf("%s was %v and is %v: keep it (Node.carry, Tree.updateBy), or list it with a reason", field, before, after)
		case before == after && listed:
			t.Errorf("%s is still %v, though listed as changed: %s", field, after, why)
		}
	}
}

// node returns the live node at a path.
func (f *fixture) node(t testing.TB, at string) tree.Node {
	t.Helper()
	n, err := f.tree.Find(t.Context(), f.db, f.who.Account, f.get(t, at).ID)
	if err != nil {
		t.Fatalf("find %s: %v", at, err)
	}
	return n
}

// other returns a file of another content, type and time, outside of /src.
func (f *fixture) other(t testing.TB) tree.Node {
	t.Helper()
	n, err := f.drive().Put(t, "/to/other.html", "another content", tree.File{Mime: "text/html", MTime: 77})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// fillTree makes the folder /to and, below /src, two files and two folders, of which every column
// has a value that differs from the default.
func (f *fixture) fillTree(t testing.TB) {
	t.Helper()
	f.folders(t, "/to")
	f.folders(t, "/src/sub/sub")
	for _, at := range []string{"/src/file", "/src/sub/file"} {
		f.put(t, at, "first")
		if _, err := f.drive().Put(t, at, "a second version", tree.File{Conflict: drive.ConflictReplace, Mime: "image/png"}); err != nil {
			t.Fatal(err)
		}
	}
	for i, at := range []string{"/src/file", "/src/sub/file", "/src/sub/sub", "/src/sub"} {
		n := f.get(t, at)
		for change := range 2 { // more revisions than a copy that is hidden until it is complete
			if _, err := f.Patch(t.Context(), f.who, n.ID, files.Patch{MTime: drive.Time(1_700_000_000_000 + 10*change + i)}); err != nil {
				t.Fatal(err)
			}
		}
		f.fillColumns(t, n.ID)
	}
}

// fillColumns sets each column of the node's row that is empty, except those that only a node in
// the trash or a file has.
func (f *fixture) fillColumns(t testing.TB, id drive.NodeID) {
	t.Helper()
	for _, column := range f.emptyColumns(t, id) {
		var value any = "filled"
		if column.number {
			value = 7
		}
		f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE nodes SET "+column.name+" = ? WHERE id = ?", value, id)
			return err
		})
	}
}

// column is a column of the table nodes.
type column struct {
	name   string
	number bool
}

// emptyColumns returns the columns that fillColumns sets.
func (f *fixture) emptyColumns(t testing.TB, id drive.NodeID) (empty []column) {
	t.Helper()
	rows, err := f.db.Query(t.Context(), "SELECT * FROM nodes WHERE id = ?", id)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // read to its end
	types, err := rows.ColumnTypes()
	if err != nil {
		t.Fatal(err)
	}
	values := make([]any, len(types))
	for i := range values {
		values[i] = new([]byte)
	}
	for rows.Next() {
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		for i, of := range types {
			value := string(*values[i].(*[]byte))
			if value != "" && value != "0" || strings.Contains("trashed_at operation_id version_id", of.Name()) {
				continue
			}
			empty = append(empty, column{of.Name(), strings.Contains(strings.ToUpper(of.DatabaseTypeName()), "INT")})
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(fmt.Errorf("read the columns: %w", err))
	}
	return empty
}
