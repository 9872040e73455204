//go:build linux

package bench

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const tusHeaders = "Tus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\n"

// BenchmarkTusPatch sends 1 GiB in one PATCH by tus, including creation and completion, and in one
// PUT to the bare server.
func BenchmarkTusPatch(b *testing.B) {
	bare, real := startBare(b), startReal(b, b.TempDir())
	body := noise(partSize)
	var plain, tus column
	for b.Loop() {
		for round := range rounds(3) + 1 {
			send := []func(){
				func() { plain.add(bareWhole(b, bare, body)) },
				func() { tus.add(tusWhole(b, real, body)) },
			}
			for i := range send {
				warm(b, bare.data)
				send[(i+round)%len(send)]()
			}
			if round == 0 { // warm-up
				plain, tus = column{}, column{}
			}
		}
	}
	table(b, "1 GiB in one request",
		[]any{"", "MiB/s", "CPU s/GiB", "rate, of bare", "CPU, of bare"},
		[]any{"bare PUT", plain.rate, plain.cpu, "", ""},
		[]any{"tus PATCH", tus.rate, tus.cpu, tus.rate.over(plain.rate), tus.cpu.over(plain.cpu)},
	)
	b.ReportMetric(tus.rate.over(plain.rate).median(), "rate-ratio")
	b.ReportMetric(tus.cpu.over(plain.cpu).median(), "cpu-ratio")
	b.ReportMetric(0, "ns/op")
}

func tusWhole(b *testing.B, s *server, body []byte) run {
	w := dial(b, s)
	defer w.conn.Close()
	r := measure(b, s, func() {
		at, err := w.tusCreate(fileSize)
		must(b, err)
		must(b, w.send(tusRequest{"PATCH", at, "Upload-Offset: 0\r\n" + tusHeaders, body, fileSize / partSize}))
	})
	s.deleteAll(b)
	s.waitUnlinked(b)
	return r
}

// BenchmarkTusSmall sends 1,000 files of 1 MiB over 4 connections: each by POST and PATCH, by POST
// with the bytes, and by PUT to the bare server.
func BenchmarkTusSmall(b *testing.B) {
	const files, conns, size = 1000, 4, mib
	bare, real := startBare(b), startReal(b, b.TempDir())
	body := noise(size)
	each := func(s *server, one func(w *wire, n int, body []byte) error) float64 {
		start, queue := time.Now(), make(chan int, files)
		for n := range files {
			queue <- n
		}
		close(queue)
		var all sync.WaitGroup
		for range conns {
			all.Go(func() {
				w := dial(b, s)
				defer w.conn.Close()
				own := slices.Clone(body)
				for n := range queue {
					binary.LittleEndian.PutUint64(own, uint64(n)<<32|uint64(time.Now().Nanosecond())) // distinct for each file
					if err := one(w, n, own); err != nil {
						b.Errorf("file %d: %v", n, err)
						return
					}
				}
			})
		}
		all.Wait()
		return files / time.Since(start).Seconds()
	}
	var plain, two, one sample
	for b.Loop() {
		for range rounds(3) {
			plain.add(each(bare, func(w *wire, n int, body []byte) error { return w.put(fmt.Sprintf("/f%d?sync", n), body, 1) }))
			two.add(each(real, func(w *wire, _ int, body []byte) error {
				at, err := w.tusCreate(size)
				if err != nil {
					return err
				}
				return w.send(tusRequest{"PATCH", at, "Upload-Offset: 0\r\n" + tusHeaders, body, 1})
			}))
			one.add(each(real, func(w *wire, _ int, body []byte) error {
				return w.send(tusRequest{"POST", "/tus/", fmt.Sprintf("Upload-Length: %d\r\n%s", size, tusHeaders), body, 1})
			}))
			found, err := filepath.Glob(filepath.Join(bare.data, "f*"))
			must(b, err)
			for _, f := range found {
				must(b, os.Remove(f))
			}
			real.deleteAll(b)
		}
	}
	table(b, "1,000 files of 1 MiB, 4 connections",
		[]any{"", "files/s", "of bare"},
		[]any{"bare PUT, synced", plain, ""},
		[]any{"tus, POST and PATCH", two, two.over(plain)},
		[]any{"tus, POST with the bytes", one, one.over(plain)},
	)
	b.ReportMetric(two.over(plain).median(), "two-ratio")
	b.ReportMetric(one.over(plain).median(), "one-ratio")
	b.ReportMetric(0, "ns/op")
}

// tusRequest is a request whose body is sent several times over.
type tusRequest struct {
	method, path, headers string
	body                  []byte
	times                 int
}

func (w *wire) send(q tusRequest) error {
	_, err := fmt.Fprintf(w.conn, "%s %s HTTP/1.1\r\nHost: %s\r\n%s%sContent-Length: %d\r\n\r\n", q.method, q.path, w.host, w.auth, q.headers, len(q.body)*q.times)
	for range q.times {
		if err == nil {
			_, err = w.conn.Write(q.body)
		}
	}
	if err != nil {
		return err
	}
	return w.answer()
}

// tusCreate creates an upload and returns its path.
func (w *wire) tusCreate(size int) (string, error) {
	_, err := fmt.Fprintf(w.conn, "POST /tus/ HTTP/1.1\r\nHost: %s\r\n%sTus-Resumable: 1.0.0\r\nUpload-Length: %d\r\nContent-Length: 0\r\n\r\n", w.host, w.auth, size)
	if err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, path, found := strings.Cut(resp.Header.Get("Location"), w.host)
	if resp.StatusCode != http.StatusCreated || !found {
		return "", fmt.Errorf("POST: %s", resp.Status)
	}
	return path, nil
}

// deleteAll permanently deletes all files.
func (s *server) deleteAll(b *testing.B) {
	b.Helper()
	for {
		var page struct{ Items []struct{ ID string } }
		s.call(b, "GET", "/nodes/root/children?limit=1000", nil, &page)
		if len(page.Items) == 0 {
			return
		}
		for _, n := range page.Items {
			s.call(b, "DELETE", "/nodes/"+n.ID+"?permanent=true", nil, nil)
		}
	}
}
