//go:build linux

package bench

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/base/wholesync"
)

const (
	perBatch   = 250 // items per batch, as in the client
	batchLanes = 4
	lineDelay  = 25 * time.Millisecond // in each direction: a round trip of 50 ms
)

// BenchmarkBatch stores 10,000 files of 10 KiB with distinct content: by one request each to the
// bare server, which syncs each file or nothing, and to the real server, and in batches of 250 over
// 4 connections, for one account and for 16.
func BenchmarkBatch(b *testing.B) {
	bare, real := startBare(b), startReal(b, b.TempDir())
	var accounts []*server
	for i := range 16 {
		accounts = append(accounts, real.user(b, fmt.Sprintf("u%d", i)))
	}
	round := 0
	flat := func(name, query string) func() run {
		return func() run {
			return sendSmall(b, bare, uint64(round), func(n int) string { return fmt.Sprintf("/%s-%d-%d%s", name, round, n, query) })
		}
	}
	ways := []struct {
		name string
		send func() run
		column
		writes sample // write transactions
	}{
		{name: "bare, file synced", send: flat("synced", "?sync=file")},
		{name: "bare, nothing synced", send: flat("plain", "")},
		{name: "smartdrive, one by one", send: func() run {
			return sendSmall(b, real, uint64(4*round), func(n int) string {
				return fmt.Sprintf("/api/v1/files/one-%d/%d/%d?parents=true", round, n/perFolder, n)
			})
		}},
		{name: "smartdrive, batches", send: func() run { return sendBatches(b, uint64(4*round+1), real) }},
		{name: "smartdrive, batches, 16 accounts", send: func() run { return sendBatches(b, uint64(4*round+2), accounts...) }},
	}
	for b.Loop() {
		for round = range rounds(3) {
			for i := range ways {
				w := &ways[(i+round)%len(ways)]
				before := real.metric(b, "smartdrive_db_writes_total")
				w.add(w.send())
				w.writes.add(real.metric(b, "smartdrive_db_writes_total") - before)
			}
		}
	}
	rows := [][]any{{"", "files/s", "CPU s", "files/s, of bare file synced", "of bare without sync", "CPU, of bare file synced", "transactions"}}
	for _, w := range ways {
		rows = append(rows, []any{w.name, w.rate, w.cpu, w.rate.over(ways[0].rate), w.rate.over(ways[1].rate), w.cpu.over(ways[0].cpu), w.writes})
	}
	table(b, "10,000 files of 10 KiB", rows...)
	b.ReportMetric(ways[3].rate.over(ways[0].rate).median(), "batch-of-synced")
	b.ReportMetric(ways[3].rate.over(ways[1].rate).median(), "batch-of-unsynced")
	b.ReportMetric(ways[2].rate.over(ways[0].rate).median(), "single-of-synced")
	b.ReportMetric(0, "ns/op")
}

// sendBatches sends 10,000 small files in batches, distributed among the users.
func sendBatches(b *testing.B, round uint64, users ...*server) run {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	content := noise(smallSize)
	s := users[0]
	cpu, start := s.cpu(b), time.Now()
	for range batchLanes {
		all.Go(func() {
			var body bytes.Buffer
			for first := next.Add(perBatch) - perBatch; first < smallFiles; first = next.Add(perBatch) - perBatch {
				body.Reset()
				for n := first; n < first+perBatch; n++ {
					fmt.Fprintf(&body, `{"op":"put","path":"/batch-%d/%d/%d","size":%d,"parents":true}`+"\n", round, n/perFolder, n, smallSize)
					at := body.Len()
					body.Write(content)
					binary.LittleEndian.PutUint64(body.Bytes()[at:], round*smallFiles+uint64(n))
				}
				if err := users[first/perBatch%int64(len(users))].sendBatch(body.Bytes()); err != nil {
					b.Errorf("batch of file %d: %v", first, err)
					return
				}
			}
		})
	}
	all.Wait()
	return run{rate: smallFiles / time.Since(start).Seconds(), cpu: (s.cpu(b) - cpu).Seconds()}
}

var errNotCreated = errors.New("not all were created")

func (s *server) sendBatch(body []byte) error {
	req, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/batch", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/vnd.smartdrive.batch")
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	created := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if bytes.Contains(lines.Bytes(), []byte(`"status":201`)) {
			created++
		}
	}
	if created != perBatch {
		return fmt.Errorf("%w: %d of %d", errNotCreated, created, perBatch)
	}
	return nil
}

// BenchmarkTree transfers a folder of 10,000 files of 10 KiB with the client: put -r and get -r on
// this machine and over a line with a round trip of 50 ms, and get -r without syncs. For comparison
// it transfers the same files as a tar that is unpacked on arrival: not synced, synced once at the
// end, and with each file synced.
func BenchmarkTree(b *testing.B) {
	real := startReal(b, b.TempDir())
	from := b.TempDir()
	content, tarred := noise(smallSize), new(bytes.Buffer)
	pack := tar.NewWriter(tarred)
	for n := range smallFiles {
		binary.LittleEndian.PutUint64(content, uint64(n))
		name := fmt.Sprintf("%d/%d", n/perFolder, n)
		must(b, os.MkdirAll(filepath.Join(from, filepath.Dir(name)), 0o777))
		must(b, os.WriteFile(filepath.Join(from, name), content, 0o666))
		must(b, pack.WriteHeader(&tar.Header{Name: name, Mode: 0o666, Size: smallSize}))
		_, err := pack.Write(content)
		must(b, err)
	}
	must(b, pack.Close())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	tars := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(tarred.Bytes()) })}
	go func() { _ = tars.Serve(l) }()
	b.Cleanup(func() { _ = tars.Close() })
	far := *real
	far.url = slowLine(b, strings.TrimPrefix(real.url, "http://"))
	no := 0
	put := func(s *server) func() {
		return func() {
			no++
			u, err := s.client(b).Uploader(client.UploadOptions{})
			must(b, err)
			sum, err := u.PutTree(b.Context(), from, fmt.Sprintf("/tree-%d", no), client.TreeOptions{SkipSame: true})
			must(b, err)
			if sum.Sent+sum.Instant != smallFiles {
				b.Fatalf("%+v", sum)
			}
		}
	}
	put(real)()
	first := fmt.Sprintf("/tree-%d", no)
	get := func(s *server, o client.DownloadOptions) func() {
		return func() {
			d, err := s.client(b).Downloader(o)
			must(b, err)
			sum, err := d.GetTree(b.Context(), first, b.TempDir(), client.TreeOptions{SkipSame: true})
			must(b, err)
			if sum.Received != smallFiles {
				b.Fatalf("%+v", sum)
			}
		}
	}
	synced := func() {
		f, err := os.Open(from)
		must(b, err)
		must(b, errors.Join(wholesync.Sync(f), f.Close()))
	}
	ways := []struct {
		name string
		do   func()
		took sample
	}{
		{name: "put -r", do: put(real)},
		{name: "put -r, a round trip of 50 ms", do: put(&far)},
		{name: "get -r", do: get(real, client.DownloadOptions{})},
		{name: "get -r, a round trip of 50 ms", do: get(&far, client.DownloadOptions{})},
		{name: "get -r --no-sync", do: get(real, client.DownloadOptions{NoSync: true})},
		{name: "tar over HTTP, unpacked", do: func() { untar(b, "http://"+l.Addr().String(), b.TempDir(), false) }},
		{name: "tar over HTTP, unpacked, synced at its end", do: func() {
			untar(b, "http://"+l.Addr().String(), b.TempDir(), false)
			synced()
		}},
		{name: "tar over HTTP, unpacked, each file synced", do: func() { untar(b, "http://"+l.Addr().String(), b.TempDir(), true) }},
	}
	for b.Loop() {
		for round := range rounds(3) {
			for i := range ways {
				w := &ways[(i+round)%len(ways)]
				synced() // flush the pending writes of earlier runs
				start := time.Now()
				w.do()
				w.took.add(time.Since(start).Seconds())
			}
		}
	}
	rows := [][]any{{"", "s", "rate, of tar", "of tar synced at its end", "of tar with each file synced"}}
	for _, w := range ways {
		rows = append(rows, []any{w.name, w.took, ways[5].took.over(w.took), ways[6].took.over(w.took), ways[7].took.over(w.took)})
	}
	table(b, "a folder of 10,000 files of 10 KiB", rows...)
	b.ReportMetric(ways[1].took.median(), "far-s")
	b.ReportMetric(ways[3].took.median(), "get-far-s")
	b.ReportMetric(ways[5].took.over(ways[2].took).median(), "get-of-tar")
	b.ReportMetric(ways[5].took.over(ways[4].took).median(), "get-unsynced-of-tar")
	b.ReportMetric(ways[6].took.over(ways[2].took).median(), "get-of-synced-tar")
	b.ReportMetric(0, "ns/op")
}

func (s *server) client(b *testing.B) *client.Client {
	b.Helper()
	c, err := client.New(client.Options{BaseURL: s.url, Token: s.token})
	must(b, err)
	b.Cleanup(c.Close)
	return c
}

// untar downloads a tar and writes its files as they arrive.
func untar(b *testing.B, url, dir string, synced bool) {
	b.Helper()
	resp, err := http.Get(url)
	must(b, err)
	defer resp.Body.Close()
	in := tar.NewReader(resp.Body)
	n := 0
	for ; ; n++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(b, err)
		path := filepath.Join(dir, h.Name)
		f, err := os.Create(path)
		if errors.Is(err, os.ErrNotExist) {
			must(b, os.MkdirAll(filepath.Dir(path), 0o777))
			f, err = os.Create(path)
		}
		must(b, err)
		_, err = io.Copy(f, in)
		if err == nil && synced {
			err = f.Sync()
		}
		must(b, errors.Join(err, f.Close()))
	}
	if n != smallFiles {
		b.Fatalf("%d files in the tar", n)
	}
}

// slowLine is a proxy to an address that delays all data by lineDelay in each direction. It does
// not limit the bandwidth.
func slowLine(b *testing.B, to string) (url string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				return
			}
			go delayed(far, near)
			go delayed(near, far)
		}
	}()
	return "http://" + l.Addr().String()
}

// delayed forwards data, each piece lineDelay after its arrival.
func delayed(to, from net.Conn) {
	type piece struct {
		due  time.Time
		data []byte
	}
	way := make(chan piece, 1<<14)
	go func() {
		defer close(way)
		for {
			buf := make([]byte, 64<<10)
			n, err := from.Read(buf)
			if n > 0 {
				way <- piece{time.Now().Add(lineDelay), buf[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range way {
		<-time.After(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
}
