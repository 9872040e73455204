//go:build linux

package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const (
	pairs    = 7
	fileSize = gib
	partSize = 8 * mib
	conns    = 4
)

// run is the cost of one upload of 1 GiB.
type run struct {
	rate float64 // MiB/s, from the first byte to the last response
	cpu  float64 // CPU seconds of the server per GiB
}

// column collects the runs of one upload method.
type column struct{ rate, cpu sample }

func (c *column) add(r run) { c.rate.add(r.rate); c.cpu.add(r.cpu) }

// BenchmarkUpload sends 1 GiB to the real server in parts of 8 MiB over 4 connections in random
// order, including begin and complete, and to the bare server: as one PUT, and as the same parts.
// The order of the methods changes from round to round.
func BenchmarkUpload(b *testing.B) {
	bare := startBare(b)
	process, part := startReal(b, b.TempDir()), startReal(b, b.TempDir(), "--durability", "part")
	body := noise(partSize)
	ways := []struct {
		name string
		send func() run
		column
	}{
		{name: "bare, one PUT", send: func() run { return bareWhole(b, bare, body) }},
		{name: "bare, parts over 4 connections", send: func() run { return bareParts(b, bare, body) }},
		{name: "smartdrive, durability process", send: func() run { return realParts(b, process, body) }},
		{name: "smartdrive, durability part", send: func() run { return realParts(b, part, body) }},
	}
	for b.Loop() {
		for round := range rounds(pairs) + 1 {
			for i := range ways {
				w := &ways[(i+round)%len(ways)]
				warm(b, bare.data)
				if r := w.send(); round > 0 { // the first round is a warm-up
					w.add(r)
				}
			}
		}
	}
	rows := [][]any{{"", "MiB/s", "CPU s/GiB", "rate, of bare one PUT", "CPU, of bare one PUT", "rate, of bare parts", "CPU, of bare parts"}}
	whole, parts := ways[0].column, ways[1].column
	for _, w := range ways {
		rows = append(rows, []any{
			w.name, w.rate, w.cpu, w.rate.over(whole.rate), w.cpu.over(whole.cpu), w.rate.over(parts.rate), w.cpu.over(parts.cpu),
		})
	}
	table(b, "1 GiB in parts of 8 MiB, random order, 4 connections", rows...)
	b.ReportMetric(ways[2].rate.over(whole.rate).median(), "rate-ratio")
	b.ReportMetric(ways[2].cpu.over(whole.cpu).median(), "cpu-ratio")
	b.ReportMetric(ways[3].rate.over(whole.rate).median(), "part-rate-ratio")
	b.ReportMetric(0, "ns/op")
}

// measure measures the duration of send and the server's CPU time.
func measure(b *testing.B, s *server, send func()) run {
	b.Helper()
	cpu, start := s.cpu(b), time.Now()
	send()
	took := time.Since(start)
	return run{rate: fileSize / mib / took.Seconds(), cpu: (s.cpu(b) - cpu).Seconds() * gib / fileSize}
}

func bareWhole(b *testing.B, s *server, body []byte) run {
	w := dial(b, s)
	defer w.conn.Close()
	r := measure(b, s, func() { must(b, w.put("/whole", body, fileSize/partSize)) })
	must(b, os.Remove(filepath.Join(s.data, "whole")))
	return r
}

func bareParts(b *testing.B, s *server, body []byte) run {
	r := measure(b, s, func() {
		sendParts(b, s, body, func(n int) string { return fmt.Sprintf("/parts?off=%d", n*partSize) })
	})
	must(b, os.Remove(filepath.Join(s.data, "parts")))
	return r
}

func realParts(b *testing.B, s *server, body []byte) run {
	var up struct {
		ID   string
		Node struct{ ID string }
	}
	r := measure(b, s, func() {
		s.call(b, "POST", "/uploads", map[string]any{"path": "/file", "size": fileSize, "part_size": partSize}, &up)
		sendParts(b, s, body, func(n int) string { return fmt.Sprintf("/api/v1/uploads/%s/parts/%d", up.ID, n) })
		s.call(b, "POST", "/uploads/"+up.ID+"/complete", map[string]any{}, &up)
	})
	s.call(b, "DELETE", "/nodes/"+up.Node.ID+"?permanent=true", nil, nil)
	s.waitUnlinked(b)
	return r
}

// waitUnlinked waits until the file of the deleted blob is unlinked, so that this does not disturb
// the next run.
func (s *server) waitUnlinked(b *testing.B) {
	b.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for range 200 {
		found, err := filepath.Glob(filepath.Join(s.data, "blobs", "*", "*"))
		must(b, err)
		if len(found) == 0 {
			return
		}
		<-again.C
	}
	b.Fatal("the deleted content is still there")
}

func sendParts(b *testing.B, s *server, body []byte, path func(n int) string) {
	queue := make(chan int, fileSize/partSize)
	for _, n := range rand.Perm(cap(queue)) {
		queue <- n
	}
	close(queue)
	var all sync.WaitGroup
	for range conns {
		all.Go(func() {
			w := dial(b, s)
			defer w.conn.Close()
			for n := range queue {
				if err := w.put(path(n), body, 1); err != nil {
					b.Errorf("part %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
}
