package export

import (
	"errors"
	"fmt"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/export/zipline"
)

// Files from many folders need few statements, not one per folder.
func TestSelectedFilesAreQueriedInSets(t *testing.T) {
	t.Parallel()
	const many = 150
	w := newWorld(t)
	var in Request
	for i := range many {
		in.Nodes = append(in.Nodes, w.put(t, fmt.Sprintf("/d/%d/%d/a", i%7, i), "first"))
	}
	var calls sqldbtest.Counter
	e := w.process(w.open(t, calls.Connector), "one")
	d, err := e.OpenDirect(t.Context(), w.who, "somebody", in)
	if err != nil || d.Total != many {
		t.Fatalf("%d files: %v", d.Total, err)
	}
	d.Close()
	direct := calls.Total()
	w.create(t, e, in)
	w.finish(t, e)
	if batch := calls.Total() - direct; direct > many/3 || batch > many {
		t.Errorf("%d statements for a zip that is sent at once, %d for a batch", direct, batch)
	}
	lost := w.folder(t, "/d/3")
	w.purge(t, w.folder(t, "/d/4/4"))
	w.trash(t, lost)
	for node, want := range map[int]drive.Kind{3: drive.WrongState, 4: drive.NotFound, 5: 0} {
		one := Request{Nodes: in.Nodes[node : node+1]}
		d, err := e.OpenDirect(t.Context(), w.who, "somebody", one)
		_, err2 := e.Create(t.Context(), w.who, one, nil)
		if err == nil {
			d.Close()
		}
		if want == 0 && errors.Join(err, err2) != nil || want != 0 && (!drive.IsKind(err, want) || !drive.IsKind(err2, want)) {
			t.Errorf("file %d: %v, %v", node, err, err2)
		}
	}
}

// Selected files use the memory grant like files of a folder.
func TestSelectedFilesUseMemoryGrant(t *testing.T) {
	sqldbtest.SQLiteOnly(t, "it is the server whose memory is counted, and making that many rows takes half a minute")
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	e.sender.budget = zipline.NewBudget(directMemory)
	ids := w.fill(t, w.put(t, "/d/a", "first"), int((directMemory-directWindow)/planMemory))
	if _, err := e.OpenDirect(t.Context(), w.who, "somebody", Request{Nodes: ids}); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("more than there is memory for: %v", err)
	}
	d, err := e.OpenDirect(t.Context(), w.who, "somebody", Request{Nodes: ids[:100]})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}

// An account that requests many zips has one turn at a time, so the next turn is another account's.
func TestLayoutTurnsAreSharedByAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	ask := func(who drive.Who, in Request) error {
		d, err := e.OpenDirect(t.Context(), who, who.User.String(), in)
		if err == nil {
			d.Close()
		}
		return err
	}
	in := Request{Nodes: []drive.NodeID{w.put(t, "/a", "first")}}
	end, err := acquireTurn(t.Context(), e.sender.turns, w.who.Account)
	if err != nil {
		t.Fatal(err)
	}
	waiting, who := make(chan error, 3), w.who
	for range cap(waiting) {
		go func() { waiting <- ask(who, in) }()
	}
	w.makeUser(t)
	if err := ask(w.who, Request{Nodes: []drive.NodeID{w.put(t, "/a", "first")}}); err != nil {
		t.Fatal(err)
	}
	if len(waiting) > 0 {
		t.Error("an account got a second place")
	}
	end()
	for range cap(waiting) {
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	}
}

// A download whose grant is evicted while it waits or is laid out ends at once.
func TestEvictedDownloadEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	e.sender.budget = zipline.NewBudget(2 * directMemory)
	in := Request{Nodes: []drive.NodeID{w.put(t, "/a", "first")}}
	end, err := acquireTurn(t.Context(), e.sender.turns, w.who.Account)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for range 2 {
		go func() {
			for { // one may briefly have all memory before both have some
				_, err := e.OpenDirect(t.Context(), w.who, "somebody", in)
				if err == nil || e.sender.budget.Evicted() > 0 {
					ended <- err
					return
				}
			}
		}()
	}
	for e.sender.budget.Evicted() == 0 {
		g, err := e.sender.budget.Acquire(t.Context(), "another", directMemory, directMemory)
		if err != nil {
			t.Fatal(err)
		}
		g.Close()
	}
	if err := <-ended; !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("it ended with %v", err)
	}
	end()
	if err := <-ended; err != nil {
		t.Errorf("the other one: %v", err)
	}
}
