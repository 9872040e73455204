package export

import (
	"fmt"
	"testing"

	"smartdrive/internal/base/drive"
)

// BenchmarkTenThousand collects and seals 10,000 entries of the drive (A6 asks for 2 s).
func BenchmarkTenThousand(b *testing.B) {
	w := newWorld(b)
	e := w.process(w.db, "a")
	var nodes []drive.NodeID
	for i := range 100 {
		nodes = append(nodes, w.put(b, fmt.Sprintf("/in/%d/%03d.pdf", i%10, i), text(i)))
	}
	var items []Item
	for i := range 10_000 {
		items = append(items, Item{Node: nodes[i%len(nodes)].String(), Name: fmt.Sprintf("store/%05d.pdf", i)})
	}
	for b.Loop() {
		b.StopTimer()
		v := w.create(b, e, Request{Name: "disk", Manifest: items})
		b.StartTimer()
		w.finish(b, e)
		b.StopTimer()
		if got := w.get(b, e, v.ID); got.State != Sealed || got.Collected != 10_000 {
			b.Fatalf("it is %s with %d", got.State, got.Collected)
		}
		if err := e.Cancel(b.Context(), w.who, v.ID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
