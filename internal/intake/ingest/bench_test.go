package ingest

import (
	"fmt"
	"testing"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// BenchmarkBundle processes a bundle of 2,000 invoices; see also BenchmarkIntake of package bench.
func BenchmarkBundle(b *testing.B) {
	w := newWorld(b)
	in := w.process(w.db, "1")
	const invoices = 2000
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		var all []*invoice.Document
		for i := range invoices {
			d := invoicetest.New(uint64(i))
			d.Number = fmt.Sprintf("%d-%05d", n, i)
			all = append(all, d)
		}
		w.send(b, newParcel("acme").lines("a.ndjson", all...))
		b.StartTimer()
		w.finish(b, in)
	}
	b.ReportMetric(float64(invoices)*float64(b.N)/b.Elapsed().Seconds(), "documents/s")
	if n := w.count(b, "SELECT COUNT(*) FROM documents"); n != int64(invoices*b.N) {
		b.Errorf("there are %d documents", n)
	}
	w.check(b)
}
