package bulk_test

import (
	"slices"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/bulk"
)

// Each database call fails once or loses its reply, during every kind of operation. Afterwards the
// operation and its undo end as without the fault, each item done once.
func TestFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, kind := range []bulk.Kind{bulk.Trash, bulk.Move, bulk.Copy, bulk.Delete} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			faults := &sqldbtest.Faults{}
			d := newFixtureAt(t, sqldbtest.OpenWith(t, sqldb.Options{Connector: faults.Connector}), treetest.Store(t), small)
			step := depth.Pick(23, 7, 1)
			for n, lost := 1, false; ; n, lost = n+step, !lost {
				before := d.list(t)
				_, all := d.createFiles(t, "/a", 4)
				d.createFiles(t, "/a/big", 6)
				all = slices.Insert(all, 2, d.at(t, "/a/big"))
				d.mkdir(t, "/to")
				was := d.list(t)
				in := bulk.Request{Kind: kind, Items: all}
				if kind == bulk.Move || kind == bulk.Copy {
					in.Parent = d.at(t, "/to")
				}
				o := d.create(t, in)
				if lost {
					faults.LoseReply("", n, nil)
				} else {
					faults.Fail("", n, nil)
				}
				for range 30 {
					if p, _ := d.Run(t.Context(), o.ID); p == bulk.Ended { // Over comes with an error, too: then the fault was there
						break
					}
				}
				unused := faults.Clear()
				condition(t, d.finish(t, o.ID), bulk.Done, 5, 0, 5)
				below := map[bulk.Kind]int{bulk.Trash: 0, bulk.Move: 11, bulk.Copy: 11, bulk.Delete: 0}[kind]
				if got := d.listBelow(t, d.at(t, "/to")); len(got) != below {
					t.Fatalf("a fault at call %d (lost %v): there are %v", n, lost, got)
				}
				if kind != bulk.Delete {
					u, err := d.Undo(t.Context(), d.who, o.ID, nil)
					if err != nil {
						t.Fatal(err)
					}
					faults.Fail("", n, nil)
					for range 30 {
						if p, _ := d.Run(t.Context(), u.ID); p == bulk.Ended {
							break
						}
					}
					faults.Clear()
					condition(t, d.finish(t, u.ID), bulk.Done, 5, 0, 5)
					same(t, was, d.list(t))
				}
				d.finish(t, d.create(t, bulk.Request{Kind: bulk.Delete, Items: []drive.NodeID{d.at(t, "/a"), d.at(t, "/to")}}).ID)
				same(t, before, d.list(t))
				if unused > 0 || t.Failed() {
					return
				}
				d.advance(time.Second)
			}
		})
	}
}
