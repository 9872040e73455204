//go:build linux

package bench

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// BenchmarkSeal completes uploads of 1, 10 and 50 GiB whose parts arrived in random order. All
// parts are holes except the last eight, 64 MiB, which are not synced yet. It runs in this process
// to time the syncs separately and to use the process's own I/O counters.
func BenchmarkSeal(b *testing.B) {
	rows := [][]any{{"", "fold + transactions, ms", "sync of 64 MiB + rename, ms", "KiB read", "of them from disk"}}
	worst := 0.0
	for b.Loop() {
		for _, size := range []drive.ByteSize{drive.GiB, 10 * drive.GiB, 50 * drive.GiB} {
			var rest, sync, read, disk sample
			for range rounds(5) {
				s := sealOnce(b, size)
				rest.add(ms(s.took - s.sync))
				sync.add(ms(s.sync))
				read.add(float64(s.read) / 1024)
				disk.add(float64(s.disk) / 1024)
			}
			worst = max(worst, rest.median())
			rows = append(rows, []any{size.String(), rest, sync, read, disk})
		}
	}
	table(b, "complete, parts of 8 MiB in random order", rows...)
	b.ReportMetric(worst, "fold+tx-ms")
	b.ReportMetric(0, "ns/op")
}

// sealed is the cost of one complete.
type sealed struct {
	took, sync time.Duration // sync is part of took
	read, disk int64         // bytes
}

// syncTimer measures the time that a seal waits for the disk.
type syncTimer struct {
	blob.Staging
	took time.Duration
}

func (s *syncTimer) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	defer func(start time.Time) { s.took += time.Since(start) }(time.Now())
	return s.Staging.Fence(ctx, ref, gen)
}

func (s *syncTimer) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	defer func(start time.Time) { s.took += time.Since(start) }(time.Now())
	return s.Staging.Seal(ctx, ref, size)
}

// boundless is a store that does not report its free space.
type boundless struct{ blob.Store }

func (boundless) Caps() blob.StoreCaps { return blob.StoreCaps{} }

func sealOnce(b *testing.B, size drive.ByteSize) sealed {
	b.Helper()
	var timed *syncTimer
	site := uploadtest.New(b, uploadtest.Options{
		Staging: func(s blob.Staging) blob.Staging {
			timed = &syncTimer{Staging: s}
			return timed
		},
		Store: func(s blob.Store) blob.Store { return boundless{s} }, // otherwise 50 GiB would be refused
	})
	who := site.Account(b, 0)
	who.Session = drive.SessionID{} // the records of accept have none either
	v, err := site.Begin(b.Context(), who, upload.Begin{Path: uploadtest.Path(b, "/f"), Size: size, PartSize: partSize}, nil)
	must(b, err)
	order := rand.Perm(v.Parts)
	last := order[:8]
	accept(b, stagedDir(b, site.Dir, v.ID.String()), v, order[8:], func(n int) digest.CV { return digest.CV{byte(n), byte(n >> 8)} })
	body := noise(partSize)
	for _, n := range last {
		must(b, site.Put(b.Context(), who, v.ID, upload.PutPart{N: n, Size: partSize}, bytes.NewReader(body)))
	}
	read, disk := ownIO(b, "rchar"), ownIO(b, "read_bytes")
	timed.took = 0
	start := time.Now()
	v, created, err := site.Complete(b.Context(), who, v.ID, upload.Complete{})
	took := time.Since(start)
	must(b, err)
	if !created || v.State != "done" {
		b.Fatalf("complete: created %v, state %s", created, v.State)
	}
	return sealed{took, timed.took, ownIO(b, "rchar") - read, ownIO(b, "read_bytes") - disk}
}

// ownIO returns an I/O counter of this process (proc_pid_io(5)).
func ownIO(b *testing.B, name string) int64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/io")
	must(b, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			must(b, err)
			return n
		}
	}
	b.Fatalf("no %s", name)
	return 0
}
