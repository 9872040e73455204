package bulk_test

import (
	"slices"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree/treetest"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/testkit/depth"
	"smartdrive/internal/usecase/bulk"
)

// Each call to the database fails once, or succeeds and loses its reply, in the middle of work of
// every kind. When the fault is gone the work comes to the same end as without it, and so does its
// undo: no item is left out, and none is done twice.
func TestFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, kind := range []bulk.Kind{bulk.Trash, bulk.Move, bulk.Copy, bulk.Delete} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			faults := &sqldbtest.Faults{}
			d := sitAt(t, sqldbtest.OpenWith(t, sqldb.Options{Connector: faults.Connector}), treetest.Store(t), small)
			step := depth.Pick(23, 7, 1)
			for n, lost := 1, false; ; n, lost = n+step, !lost {
				before := d.ls(t)
				_, all := d.plant(t, "/a", 4)
				d.plant(t, "/a/big", 6)
				all = slices.Insert(all, 2, d.at(t, "/a/big"))
				d.mkdir(t, "/to")
				was := d.ls(t)
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
					if p, _ := d.Run(t.Context(), o.ID); p == bulk.Over { // Over comes with an error, too: then the fault was there
						break
					}
				}
				unused := faults.Clear()
				condition(t, d.finish(t, o.ID), bulk.Done, 5, 0, 5)
				below := map[bulk.Kind]int{bulk.Trash: 0, bulk.Move: 11, bulk.Copy: 11, bulk.Delete: 0}[kind]
				if got := d.lsBelow(t, d.at(t, "/to")); len(got) != below {
					t.Fatalf("a fault at call %d (lost %v): there are %v", n, lost, got)
				}
				if kind != bulk.Delete {
					u, err := d.Undo(t.Context(), d.who, o.ID, nil)
					if err != nil {
						t.Fatal(err)
					}
					faults.Fail("", n, nil)
					for range 30 {
						if p, _ := d.Run(t.Context(), u.ID); p == bulk.Over {
							break
						}
					}
					faults.Clear()
					condition(t, d.finish(t, u.ID), bulk.Done, 5, 0, 5)
					same(t, was, d.ls(t))
				}
				d.finish(t, d.create(t, bulk.Request{Kind: bulk.Delete, Items: []drive.NodeID{d.at(t, "/a"), d.at(t, "/to")}}).ID)
				same(t, before, d.ls(t))
				if unused > 0 || t.Failed() {
					return
				}
				d.advance(time.Second)
			}
		})
	}
}
