package collect_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// A page of links takes a constant number of statements and shows received and arriving bytes.
func TestListTakesConstantStatements(t *testing.T) {
	t.Parallel()
	var count sqldbtest.Counter
	d := newFixture(t, uploadtest.Options{DB: sqldb.Options{Connector: count.Connector}})
	made := map[drive.CollectID]drive.ByteSize{} // what comes by each
	add := func(n int) {
		t.Helper()
		for range n {
			d.folder = d.folderAt(t, fmt.Sprint("/in/", len(made)))
			l, size := d.link(t, 1000), drive.ByteSize(len(made)+1)
			if _, err := begin(t.Context(), d.Sessions, d.Links, d.sender(t, l), "f", size); err != nil {
				t.Fatal(err)
			}
			made[l.ID] = size
		}
	}
	list := func() int {
		t.Helper()
		before := count.Count(sqldbtest.Query)
		all, err := d.Links.List(t.Context(), d.who, collect.Query{Limit: 1000})
		if err != nil || len(all) != len(made) {
			t.Fatalf("%d links (%v), want %d", len(all), err, len(made))
		}
		for _, v := range all {
			if comes := made[v.ID]; v.State != collect.Open || v.Item.ID != v.Folder || v.Token == "" || v.Arriving != comes || *v.Left != 1000-comes {
				t.Errorf("%d bytes come by %+v, %d left", comes, v, *v.Left)
			}
		}
		return count.Count(sqldbtest.Query) - before
	}
	add(3)
	list() // keys are remembered
	few := list()
	add(60)
	if many := list(); many > few+1 { // a key may be read again
		t.Errorf("%d statements for 3 links and %d for %d", few, many, len(made))
	}
}

func (d *fixture) folderAt(t testing.TB, path string) (id drive.NodeID) {
	t.Helper()
	treetest.Write(t, d.DB, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := d.Tree.EnsureFolders(ctx, tx, d.who.Account, treetest.Path(t, path))
		id = n.ID
		return err
	})
	return id
}

// A list shows each link in the same state as Find does.
func TestListShowsStateOfEachLink(t *testing.T) {
	t.Parallel()
	d := newFixture(t, uploadtest.Options{})
	want := map[drive.CollectID]collect.State{}
	give := func(state collect.State, in collect.Request) collect.View {
		t.Helper()
		in.Folder, in.Title = d.folderAt(t, "/"+string(state)), string(state)
		v, err := d.Create(t.Context(), d.who, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		want[v.ID] = state
		return v
	}
	some := drive.ByteSize(5)
	give(collect.Open, collect.Request{})
	give(collect.Expired, collect.Request{Life: time.Minute})
	gone := give(collect.Gone, collect.Request{MaxBytes: &some})
	full := give(collect.Full, collect.Request{MaxBytes: &some})
	by := d.sender(t, full)
	v, err := begin(t.Context(), d.Sessions, d.Links, by, "f", some)
	if err != nil {
		t.Fatal(err)
	}
	d.SendAll(t, by.Who(), v, []byte("12345"))
	if _, _, err := d.Complete(t.Context(), by.Who(), v.ID, upload.Complete{}); err != nil {
		t.Fatal(err)
	}
	treetest.Write(t, d.DB, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM nodes WHERE id = ?", gone.Folder)
		return err
	})
	d.Clock.Advance(time.Hour)
	all, err := d.Links.List(t.Context(), d.who, collect.Query{Limit: 10})
	if err != nil || len(all) != len(want) {
		t.Fatalf("%d links, %v", len(all), err)
	}
	for _, v := range all {
		if v.State != want[v.ID] || v.Item.ID.IsZero() != (v.State == collect.Gone) {
			t.Errorf("%s is %s, its folder %s", want[v.ID], v.State, v.Item.ID)
		}
		if full := v.State == collect.Full; full != (v.Files == 1 && v.Received == some) {
			t.Errorf("by %s %d files came, %d bytes", v.Title, v.Files, v.Received)
		}
	}
}
