package export

import (
	"context"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Requests for the same month of a folder share one batch until it ends. Other requests, and those
// with Force, get another batch.
func TestSameMonthRequestJoinsBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "/in/nov.pdf", "november")
	e := w.process(w.db, "a")
	in := Request{Folder: w.folder(t, "/in"), Filter: Filter{Month: "2026-11"}}
	var mu sync.Mutex
	made := map[drive.ExportID]int{} // number of requests that created it
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			hooked := View{}
			v, err := e.Create(t.Context(), w.who, in, func(_ context.Context, _ *sqldb.Tx, v View) error { hooked = v; return nil })
			mu.Lock()
			defer mu.Unlock()
			if made[v.ID] += 0; !v.Joined {
				made[v.ID]++
			}
			if err != nil || hooked.ID != v.ID || hooked.Joined != v.Joined {
				t.Errorf("%+v: %v, the hook got %+v", v, err, hooked)
			}
		})
	}
	all.Wait()
	var first drive.ExportID
	for id, times := range made {
		if first = id; times != 1 {
			t.Errorf("made %d times", times)
		}
	}
	if len(made) != 1 {
		t.Fatalf("the batches are %v", made)
	}
	w.finish(t, e)
	ask := func(in Request) View {
		t.Helper()
		v, err := e.Create(t.Context(), w.who, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := ask(in); v.ID != first || !v.Joined || v.State != Sealed {
		t.Errorf("a sealed one is not joined: %+v", v)
	}
	other := in
	other.Index = true
	if v := ask(other); v.Joined {
		t.Error("another request joins")
	}
	again := in
	again.Force = true
	newer := ask(again)
	if newer.Joined || newer.ID == first {
		t.Error("again joins")
	}
	if v := ask(in); v.ID != newer.ID {
		t.Error("it does not join the newest")
	}
	for _, id := range []drive.ExportID{newer.ID, first} {
		if err := e.Cancel(t.Context(), w.who, id); err != nil {
			t.Fatal(err)
		}
	}
	if v := ask(in); v.Joined {
		t.Error("it joins one that has ended")
	}
}
