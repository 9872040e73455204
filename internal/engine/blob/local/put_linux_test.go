package local

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// TestSlowFileSystemSyncIsNotRepeated checks that small files do not repeat a slow sync of the file
// system, and never use it after a failed one.
func TestSlowFileSystemSyncIsNotRepeated(t *testing.T) {
	t.Parallel()
	var now time.Time
	w := &fsSync{supported: true, now: func() time.Time { return now }}
	for _, c := range []struct {
		what  string
		took  time.Duration
		after time.Duration
		err   error
		quick bool
	}{
		{"a quick one", slowSync, 0, nil, true},
		{"a slow one", time.Second, 0, nil, false},
		{"a while after it", 0, slowSyncPause*time.Second - 1, nil, false},
		{"its rest is over", 0, 1, nil, true},
		{"one that failed", 0, 0, errFSSyncFailed, false},
		{"long after it", 0, time.Hour, nil, false},
	} {
		began := now
		now = now.Add(c.took + c.after)
		if c.after == 0 {
			w.record(began, c.err)
		}
		if got := w.usableNow(); got != c.quick {
			t.Errorf("%s: quick is %v", c.what, got)
		}
	}
}

// BenchmarkPut puts contents of 10 KiB, some concurrently and 512 sequentially in one directory. It
// compares shared syncs with a sync per file.
func BenchmarkPut(b *testing.B) {
	for _, writers := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprint(writers, " at a time"), func(b *testing.B) {
			d := openTestDir(b)
			var shared, each putCost
			for b.Loop() {
				d.fs.supported = true
				shared.add(b, d, writers)
				d.fs.supported = false
				each.add(b, d, writers)
			}
			for name, s := range map[string]putCost{"shared": shared, "each": each} {
				b.ReportMetric(float64(s.puts)/s.time.Seconds(), name+"/s")
				b.ReportMetric(s.cpu.Seconds()*1e6/float64(s.puts), name+"-cpu-us")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// putCost is the time and the syncs of puts.
type putCost struct {
	puts      int
	time, cpu time.Duration
}

func (s *putCost) add(b *testing.B, d *Dir, writers int) {
	const puts = 1024
	var left, stamp atomic.Int64
	left.Store(puts)
	content := blobtest.Bytes(1, 10*drive.KiB)
	cpu, start := processTime(b), time.Now()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				id := drive.NewID[drive.UploadID]()
				id[len(id)-1] = byte(stamp.Add(1) / 512)
				body := blob.NewBody(bytes.NewReader(content), blob.BodyOptions{Size: 10 * drive.KiB})
				if _, err := d.Blobs.Put(b.Context(), fmt.Sprintf("put-1-%s", id), body); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	s.puts, s.time, s.cpu = s.puts+puts, s.time+time.Since(start), s.cpu+processTime(b)-cpu
}

func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	noError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
