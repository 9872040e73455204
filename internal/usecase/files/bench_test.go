package files_test

import (
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/usecase/files"
)

// BenchmarkBatches measures the longest transaction of a big copy and of its purge: the budget is
// 50 ms.
func BenchmarkBatches(b *testing.B) {
	d := newFixture(b, files.Options{Direct: 1})
	for i := range 2000 {
		d.put(b, fmt.Sprintf("/src/%d/f%d", i%10, i), fmt.Sprint(i))
	}
	var longest time.Duration
	run := func(id drive.OperationID) {
		for {
			start := time.Now()
			o, err := d.Operations.Step(b.Context(), id)
			if longest = max(longest, time.Since(start)); err != nil || o.State != files.Running {
				return
			}
		}
	}
	for b.Loop() {
		r, err := d.Copies.Copy(b.Context(), d.who, d.get(b, "/src").ID, files.Copy{Parent: d.root, Name: "dst"})
		if err != nil {
			b.Fatal(err)
		}
		run(r.Operation.ID)
		b.ReportMetric(float64(longest.Milliseconds()), "ms/longest-copy")
		longest = 0
		op, err := d.DeletePermanently(b.Context(), d.who, d.get(b, "/dst").ID, tree.Expect{})
		if err != nil {
			b.Fatal(err)
		}
		run(op.ID)
		b.ReportMetric(float64(longest.Milliseconds()), "ms/longest-purge")
		longest = 0
	}
}

// BenchmarkList measures a short and a full page with paths and digests.
func BenchmarkList(b *testing.B) {
	d := newFixture(b, files.Options{})
	for i := range tree.MaxLimit {
		d.put(b, fmt.Sprintf("/src/f%d", i), fmt.Sprint(i))
	}
	id := d.get(b, "/src").ID
	for _, limit := range []int{10, 100, tree.MaxLimit} {
		b.Run(fmt.Sprint(limit), func(b *testing.B) {
			for b.Loop() {
				if _, err := d.Children(b.Context(), d.who, id, tree.List{Limit: limit}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
