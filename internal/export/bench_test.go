package export

import (
	"fmt"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// BenchmarkTenThousand collects and seals 10,000 entries of the drive (target of A6: 2 s).
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

// BenchmarkDirect lays out a folder of 20,000 files.
func BenchmarkDirect(b *testing.B) {
	w := newWorld(b)
	e := w.process(w.db, "a")
	w.fill(b, w.put(b, "/in/a", "first"), 19_999)
	in := Request{Folder: w.folder(b, "/in")}
	for b.Loop() {
		d, err := e.OpenDirect(b.Context(), w.who, "a", in)
		if err != nil || d.Total != 20_000 {
			b.Fatalf("%d files: %v", d.Total, err)
		}
		d.Close()
	}
}

// BenchmarkOneBehindFifty measures an export of one file behind 49 exports of another account with
// 2,000 files each.
func BenchmarkOneBehindFifty(b *testing.B) {
	w := newWorld(b)
	e := w.process(w.db, "a")
	ids := w.fill(b, w.put(b, "/in/a", "first"), 2000)
	for range maxHeld - 1 {
		w.create(b, e, Request{Nodes: ids})
	}
	for b.Loop() {
		b.StopTimer()
		w.makeUser(b)
		v := w.create(b, e, Request{Nodes: []drive.NodeID{w.put(b, "/a", "a")}})
		b.StartTimer()
		for w.get(b, e, v.ID).State != Sealed {
			do, err := e.workers.claim(b.Context())
			if err != nil || do == nil {
				b.Fatal("nothing is done", err)
			}
			do(b.Context())
		}
	}
}

// BenchmarkDirectOfManyFolders lays out selected files, each in its own folder.
func BenchmarkDirectOfManyFolders(b *testing.B) {
	const many = 5000
	w := newWorld(b)
	e := w.process(w.db, "a")
	w.put(b, "/in/a", "first")
	var in Request
	for i := range many {
		in.Nodes = append(in.Nodes, w.put(b, fmt.Sprintf("/in/%d/%d/a", i%50, i), "first"))
	}
	for b.Loop() {
		d, err := e.OpenDirect(b.Context(), w.who, "a", in)
		if err != nil || d.Total != many {
			b.Fatalf("%d files: %v", d.Total, err)
		}
		d.Close()
	}
}
