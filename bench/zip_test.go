//go:build linux

package bench

import (
	"archive/zip"
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/export/zipline"
)

// documents is a store in memory with the same document under every name. It delays each Open and
// each first read.
type documents struct {
	content []byte
	wait    time.Duration
}

func (d documents) Open(ctx context.Context, _ string) (blob.Object, error) {
	return &document{d, false}, pause(ctx, d.wait)
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type document struct {
	documents
	begun bool
}

func (d *document) Size() drive.ByteSize { return drive.ByteSize(len(d.content)) }

func (d *document) ReadAt(p []byte, off int64) (int, error) {
	if !d.begun {
		d.begun = true
		_ = pause(context.Background(), d.wait)
	}
	return copy(p, d.content[off:]), nil
}

func (d *document) Close() error { return nil }

// manifest returns n documents of 100 KB and their frozen manifest.
func manifest(n int) (documents, []byte) {
	content := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(content)
	entries := make([]zipline.Entry, n)
	for i := range entries {
		entries[i] = zipline.Entry{
			Name: fmt.Sprintf("盘/店铺%02d/发票%05d.pdf", i%100, i), Size: drive.ByteSize(len(content)), CRC32: crc32.ChecksumIEEE(content),
			Time: drive.TimeOf(time.Unix(1_790_000_000, 0)), Blob: fmt.Sprintf("blob-%d", i),
		}
	}
	return documents{content: content}, zipline.Encode(entries)
}

// virtual serves the archive of a frozen manifest. As in the product, its layout was computed when
// it was sealed.
func virtual(b *testing.B, frozen []byte, src zipline.Source) http.HandlerFunc {
	a := thaw(b, frozen)
	return func(w http.ResponseWriter, r *http.Request) { a.Serve(w, r, src, zipline.ServeOptions{}) }
}

// thaw decodes a frozen manifest, as the first request after a restart does.
func thaw(b *testing.B, frozen []byte) *zipline.Archive {
	entries, err := zipline.Decode(frozen)
	must(b, err)
	a, err := zipline.Layout(entries)
	must(b, err)
	return a
}

// temporary is the common method: archive/zip writes a temporary file, which is then sent.
func temporary(b *testing.B, frozen []byte, src documents, written *int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, err := os.CreateTemp(b.TempDir(), "*.zip")
		must(b, err)
		defer os.Remove(f.Name())
		defer f.Close()
		entries, err := zipline.Decode(frozen)
		must(b, err)
		out := bufio.NewWriterSize(f, 1<<20)
		must(b, pack(r.Context(), out, entries, src))
		must(b, out.Flush())
		info, err := f.Stat()
		must(b, err)
		*written = info.Size()
		http.ServeContent(w, r, "a.zip", time.Time{}, f)
	}
}

// pack writes an archive of the entries with archive/zip.
func pack(ctx context.Context, out io.Writer, entries []zipline.Entry, src zipline.Source) error {
	z := zip.NewWriter(out)
	for i := range entries {
		w, err := z.CreateHeader(&zip.FileHeader{Name: entries[i].Name, Method: zip.Store, Modified: entries[i].Time.Std()})
		if err != nil {
			return err
		}
		o, err := src.Open(ctx, entries[i].Blob)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, io.NewSectionReader(o, 0, int64(o.Size())))
		o.Close()
		if err != nil {
			return err
		}
	}
	return z.Close()
}

// fetch returns the times to the first and to the last byte. With first it disconnects after the
// first byte.
func fetch(b *testing.B, url string, first bool) (toFirst, toLast time.Duration, size int64) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	must(b, err)
	res, err := http.DefaultClient.Do(r)
	must(b, err)
	defer res.Body.Close()
	_, err = io.ReadFull(res.Body, make([]byte, 1))
	must(b, err)
	toFirst = time.Since(began)
	if first {
		return toFirst, 0, 0
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, res.Body, make([]byte, 1<<20))
	must(b, err)
	return toFirst, time.Since(began), n + 1
}

// BenchmarkZip sends 10,000 documents of 100 KB as a computed archive, and as one that archive/zip
// first writes to a temporary file. Both read the same store in memory; client and server share
// this process.
func BenchmarkZip(b *testing.B) {
	src, frozen := manifest(10_000)
	for b.Loop() {
		server := httptest.NewServer(virtual(b, frozen, src))
		var thawed, first, rate, oldFirst, oldRate sample
		for range 30 {
			began := time.Now()
			thaw(b, frozen)
			thawed.add(ms(time.Since(began)))
		}
		for range 300 {
			took, _, _ := fetch(b, server.URL, true)
			first.add(ms(took))
		}
		var temp int64
		old := httptest.NewServer(temporary(b, frozen, src, &temp))
		for range rounds(3) {
			_, took, n := fetch(b, server.URL, false)
			rate.add(float64(n) / 1e6 / took.Seconds())
			begun, took, n := fetch(b, old.URL, false)
			oldFirst.add(ms(begun))
			oldRate.add(float64(n) / 1e6 / took.Seconds())
		}
		slices.Sort(first)
		p99 := first[len(first)*99/100]
		memory := memoryOfStreams(b, server.URL)
		table(
			b, "10,000 documents of 100 KB as one zip",
			[]any{"", "first byte, ms", "MB/s", "temporary file, MB"},
			[]any{"computed", first, rate, 0},
			[]any{"archive/zip", oldFirst, oldRate, temp / 1e6},
		)
		fmt.Printf("  decode and lay out: %v ms\n", thawed)
		fmt.Printf("  first byte, p99: %.1f ms; memory of a stream whose client reads nothing: %.1f MiB\n", p99, memory)
		b.ReportMetric(p99, "first-byte-p99-ms")
		b.ReportMetric(memory, "MiB/stream")
		server.Close()
		old.Close()
	}
	b.ReportMetric(0, "ns/op")
}

// memoryOfStreams returns the memory of each of ten streams whose clients do not read, in MiB,
// including the clients.
func memoryOfStreams(b *testing.B, url string) float64 {
	b.Helper()
	const n = 10
	before := inUse()
	for range n {
		res, err := http.Get(url) //nolint:noctx // it ends with the benchmark
		must(b, err)
		defer res.Body.Close()
		_, err = io.CopyN(io.Discard, res.Body, 20<<20)
		must(b, err)
	}
	return float64(inUse()-before) / n / (1 << 20)
}

// inUse returns the bytes of live heap objects.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // again, because pools keep objects for one more collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// BenchmarkZipLatency reads documents of 100 KB from a store with a latency of 20 ms and two
// requests per document.
func BenchmarkZipLatency(b *testing.B) {
	src, frozen := manifest(2_000)
	src.wait = 20 * time.Millisecond
	few, err := zipline.Decode(frozen)
	must(b, err)
	for b.Loop() {
		server := httptest.NewServer(virtual(b, frozen, src))
		var rate, old sample
		for range rounds(3) {
			_, took, n := fetch(b, server.URL, false)
			rate.add(float64(n) / 1e6 / took.Seconds())
			began := time.Now()
			must(b, pack(context.Background(), io.Discard, few[:40], src))
			old.add(40 * 0.1 / time.Since(began).Seconds())
		}
		table(
			b, "documents of 100 KB, 20 ms for each request", []any{"", "MB/s"},
			[]any{"computed, read ahead", rate}, []any{"archive/zip, one after the other", old},
		)
		b.ReportMetric(rate.median(), "MB/s")
		server.Close()
	}
	b.ReportMetric(0, "ns/op")
}
