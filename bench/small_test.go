//go:build linux

package bench

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	smallFiles = 10_000
	smallSize  = 10 << 10
	smallConns = 16
	perFolder  = 1000
)

// BenchmarkSmallFiles stores 10,000 files of 10 KiB with distinct content over 16 keep-alive
// connections, one request each. The bare server syncs each file, or the file and its directory as
// SmartDrive must, so that names are durable.
func BenchmarkSmallFiles(b *testing.B) {
	bare, real := startBare(b), startReal(b, b.TempDir())
	round := 0
	flat := func(sync string) func(n int) string {
		return func(n int) string { return fmt.Sprintf("/%s-%d-%d?sync=%s", sync, round, n, sync) }
	}
	ways := []struct {
		name string
		to   *server
		path func(n int) string
		column
	}{
		{name: "bare, file synced", to: bare, path: flat("file")},
		{name: "bare, file and directory synced", to: bare, path: flat("dir")},
		{name: "smartdrive", to: real, path: func(n int) string {
			return fmt.Sprintf("/api/v1/files/%d/%d/%d?parents=true", round, n/perFolder, n)
		}},
	}
	for b.Loop() {
		for round = range rounds(5) {
			for i := range ways {
				w := &ways[(i+round)%len(ways)]
				w.add(sendSmall(b, w.to, uint64(round), w.path)) // files are not deleted, because ext4 is slow to reuse recent inodes
			}
		}
	}
	rows := [][]any{{"", "files/s", "CPU s", "files/s, of bare file", "files/s, of bare file+dir"}}
	for _, w := range ways {
		rows = append(rows, []any{w.name, w.rate, w.cpu, w.rate.over(ways[0].rate), w.rate.over(ways[1].rate)})
	}
	rows = append(rows, []any{"smartdrive: transactions / commits", real.metric(b, "smartdrive_db_writes_total"), real.metric(b, "smartdrive_db_commits_total")})
	table(b, "10,000 files of 10 KiB over 16 connections", rows...)
	b.ReportMetric(ways[2].rate.over(ways[0].rate).median(), "rate-ratio")
	b.ReportMetric(ways[2].rate.over(ways[1].rate).median(), "rate-ratio-dir")
	b.ReportMetric(0, "ns/op")
}

// sendSmall returns the files per second, and the server's CPU seconds for all files.
func sendSmall(b *testing.B, s *server, round uint64, path func(n int) string) run {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	content := noise(smallSize)
	cpu, start := s.cpu(b), time.Now()
	for range smallConns {
		all.Go(func() {
			w, body := dial(b, s), append([]byte(nil), content...)
			defer w.conn.Close()
			for n := next.Add(1) - 1; n < smallFiles; n = next.Add(1) - 1 {
				binary.LittleEndian.PutUint64(body, round*smallFiles+uint64(n))
				if err := w.put(path(int(n)), body, 1); err != nil {
					b.Errorf("file %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
	return run{rate: smallFiles / time.Since(start).Seconds(), cpu: (s.cpu(b) - cpu).Seconds()}
}
