//go:build linux

package bench

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// BenchmarkIntake takes in a bundle of 20,000 invoices, some 50 MB of JSON lines. It measures the
// time from sending meta.json until the bundle is done, and how far the server's memory rose above
// its level after the upload.
func BenchmarkIntake(b *testing.B) {
	const invoices = 20_000
	var lines bytes.Buffer
	for i := range invoices {
		d := invoicetest.New(uint64(i))
		d.Number = fmt.Sprintf("B-%05d", i)
		lines.Write(invoicetest.NDJSON(d))
	}
	s := startReal(b, b.TempDir())
	for b.Loop() {
		b.StopTimer()
		m := bundle.Manifest{Schema: bundle.Schema, ID: bundle.NewID(), Source: "bench", CreatedAt: time.Now()}
		sum := sha256.Sum256(lines.Bytes())
		m.Members = append(m.Members, bundle.Member{
			Name: "invoices.ndjson", Size: int64(lines.Len()), SHA256: hex.EncodeToString(sum[:]), Documents: invoices,
		})
		raw, err := m.Encode()
		must(b, err)
		s.putFile(b, &m, "invoices.ndjson", lines.Bytes())
		before := s.counter(b, "status", "VmRSS")
		cpu := s.cpu(b)
		b.StartTimer()
		start := time.Now()
		s.putFile(b, &m, "meta.json", raw)
		done, most := s.taken(b, m.ID)
		took := time.Since(start)
		used := s.cpu(b) - cpu
		table(b, "intake of 20,000 invoices", []any{"MB", float64(lines.Len()) / 1e6}, []any{"seconds (at most 10)", took.Seconds()},
			[]any{"CPU seconds", used.Seconds()}, []any{"memory, MiB above what it was (at most 128)", float64(most-before) / 1024})
		b.ReportMetric(took.Seconds(), "s/bundle")
		b.ReportMetric(float64(invoices)/took.Seconds(), "documents/s")
		b.ReportMetric(float64(most-before)/1024, "MiB")
		if done.Accepted != invoices {
			b.Fatalf("it is %+v", done)
		}
	}
}

func (s *server) putFile(b *testing.B, m *bundle.Manifest, name string, raw []byte) {
	b.Helper()
	path := "/api/v1/files" + bundle.Folder(m.Source, m.ID).String() + "/" + name + "?parents=true"
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPut, s.url+path, bytes.NewReader(raw))
	must(b, err)
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	must(b, err)
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		b.Fatalf("%s: %s %s", path, resp.Status, text)
	}
}

// taken is the outcome of a bundle.
type taken struct {
	SenderID string `json:"sender_id"`
	State    string
	Reason   string
	Accepted int64
}

// taken waits until a bundle has ended, and returns the server's peak memory meanwhile in KiB.
func (s *server) taken(b *testing.B, id string) (taken, int64) {
	b.Helper()
	most := int64(0)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		most = max(most, s.counter(b, "status", "VmRSS"))
		var page struct{ Items []taken }
		s.call(b, "GET", "/bundles?limit=1", nil, &page)
		if len(page.Items) == 1 && page.Items[0].SenderID == id && (page.Items[0].State == "done" || page.Items[0].State == "rejected") {
			return page.Items[0], most
		}
		if b.Context().Err() != nil {
			break
		}
	}
	return taken{}, most
}
