//go:build linux

package bench

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// BenchmarkMemory runs 200 concurrent uploads by 10 users: half of them send 32 MiB as fast as they
// can and complete; the others send one part at 64 KiB/s until the former are done. It reports the
// server's peak memory (VmHWM).
func BenchmarkMemory(b *testing.B) {
	const users, each, parts = 10, 20, 4
	s := startReal(b, b.TempDir())
	idle := s.counter(b, "status", "VmHWM")
	body := noise(partSize)
	for b.Loop() {
		var fast, slow sync.WaitGroup
		done := make(chan struct{})
		for u := range users {
			who := s.user(b, fmt.Sprintf("user%d", u))
			for i := range each {
				var up struct{ ID string }
				who.call(b, "POST", "/uploads", map[string]any{
					"path": fmt.Sprintf("/f%d", i), "size": parts * partSize, "part_size": partSize,
				}, &up)
				if i%2 == 0 {
					slow.Go(func() { drip(b, who, up.ID, body, done) })
				} else {
					fast.Go(func() { sendFast(b, who, up.ID, body, parts, u*each+i) })
				}
			}
		}
		fast.Wait()
		close(done)
		slow.Wait()
	}
	peak := s.counter(b, "status", "VmHWM")
	table(b, "memory of the server", []any{"after start, MiB", float64(idle) / 1024}, []any{"peak at 200 uploads, MiB (under 128)", float64(peak) / 1024})
	b.ReportMetric(float64(peak)/1024, "MiB")
	b.ReportMetric(0, "ns/op")
}

// sendFast sends all parts over one connection, with bytes distinct for each upload, and completes.
func sendFast(b *testing.B, s *server, id string, body []byte, parts, stamp int) {
	w := dial(b, s)
	defer w.conn.Close()
	for n := range parts {
		head := binary.LittleEndian.AppendUint64(nil, uint64(stamp))
		err := w.begin(fmt.Sprintf("/api/v1/uploads/%s/parts/%d", id, n), partSize)
		if err == nil {
			_, err = (&net.Buffers{head, body[len(head):]}).WriteTo(w.conn)
		}
		if err == nil {
			err = w.answer()
		}
		if err != nil {
			b.Errorf("part %d: %v", n, err)
			return
		}
	}
	s.call(b, "POST", "/uploads/"+id+"/complete", map[string]any{}, nil)
}

// drip sends 64 KiB of a part each second until done is closed.
func drip(b *testing.B, s *server, id string, body []byte, done <-chan struct{}) {
	w := dial(b, s)
	defer w.conn.Close()
	if err := w.begin(fmt.Sprintf("/api/v1/uploads/%s/parts/0", id), partSize); err != nil {
		b.Error(err)
		return
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for off := 0; ; off += 16 << 10 {
		if _, err := w.conn.Write(body[off%partSize : off%partSize+16<<10]); err != nil {
			b.Error(err)
			return
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}
