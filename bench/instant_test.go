//go:build linux

package bench

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/test/process"
)

// BenchmarkInstant adds a file of 10 GiB by its digest to the drive of a user who already owns the
// content.
func BenchmarkInstant(b *testing.B) {
	const size = 10 * gib
	s := startReal(b, b.TempDir())
	sum := plantZeros(b, s, size)
	var begin sample
	n := 0
	for b.Loop() {
		for range rounds(11) {
			n++
			var up struct{ State string }
			start := time.Now()
			s.call(b, "POST", "/uploads", map[string]any{"path": fmt.Sprintf("/again%d", n), "size": size, "digests": map[string]string{"blake3": sum}}, &up)
			begin.add(ms(time.Since(start)))
			if up.State != "done" {
				b.Fatalf("not linked: %+v", up)
			}
		}
	}
	table(b, "a file of 10 GiB that its owner has already, as the client sees it", []any{"begin, ms (under 100)", begin})
	b.ReportMetric(begin.median(), "ms")
	b.ReportMetric(0, "ns/op")
}

// plantZeros creates a file of zeros without sending its bytes, and returns its BLAKE3.
func plantZeros(b *testing.B, s *server, size int64) string {
	b.Helper()
	parts := int(size / partSize)
	cvs, work := make([]digest.CV, parts), make(chan int)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			part, buf := digest.NewPart(0), make([]byte, mib)
			for n := range work {
				part.Reset(int64(n) * partSize)
				for range partSize / mib {
					_, _ = part.Write(buf)
				}
				cvs[n] = part.CV()
			}
		})
	}
	for n := range parts {
		work <- n
	}
	close(work)
	all.Wait()
	var up struct{ ID string }
	s.call(b, "POST", "/uploads", map[string]any{"path": "/zeros", "size": size, "part_size": partSize}, &up)
	declared := drive.ByteSize(size)
	order := make([]int, parts)
	for n := range order {
		order[n] = n
	}
	accept(b, stagedDir(b, s.data, up.ID), upload.View{Size: &declared, PartSize: partSize}, order, func(n int) digest.CV { return cvs[n] })
	s.call(b, "POST", "/uploads/"+up.ID+"/complete", map[string]any{}, nil)
	sum := digest.Fold(cvs)
	return hex.EncodeToString(sum[:])
}

// BenchmarkStart measures the time from the start of the binary to its ready line, with an empty
// database and with 200,000 files.
func BenchmarkStart(b *testing.B) {
	data := b.TempDir()
	s, first := launch(b, data)
	s.stop(b)
	start := func() (all sample) {
		for range rounds(5) {
			s, ready := launch(b, data)
			s.stop(b)
			all.add(ms(ready))
		}
		return all
	}
	empty := start()
	plantNodes(b, filepath.Join(data, "smartdrive.db"), 200_000)
	var full sample
	for b.Loop() {
		full = start()
	}
	table(b, "from start to ready", []any{"very first, ms", ms(first)}, []any{"empty, ms", empty}, []any{"200,000 files, ms (under 1,000)", full})
	b.ReportMetric(full.median(), "ms")
	b.ReportMetric(0, "ns/op")
}

// plantNodes inserts n files into the first account's root.
func plantNodes(b *testing.B, path string, n int) {
	b.Helper()
	db, err := sqldb.Open(b.Context(), sqldb.Options{Path: path})
	must(b, err)
	const ids = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) `
	const id = `printf('00000000-0000-7000-8000-%012x', i)`
	err = db.Write(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for _, insert := range []string{
			`INSERT INTO blobs (id, file, algo, digest, size, part_size, crc32, refs, created_at, scrubbed_at, parts)
				` + ids + `SELECT ` + id + `, 'put-1-' || ` + id + `, 'blake3', printf('%064x', i), 10000, 8388608, 0, 1, 0, 0, zeroblob(36) FROM n`,
			`INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, version_id, mtime, rev, seq, created_at, updated_at)
				` + ids + `SELECT ` + id + `, account_id, root_id, 'file' || i, 'file' || i, 'file' || i, 'file', ` + id + `, 0, 1, i + 1, 0, 0 FROM n, trees`,
			`INSERT INTO versions (id, node_id, account_id, blob_id, size, mtime, mime, created_at, created_by)
				` + ids + `SELECT ` + id + `, ` + id + `, account_id, ` + id + `, 10000, 0, '', 0, '' FROM n, trees`,
		} {
			if _, err := tx.Exec(ctx, insert, n); err != nil {
				return err
			}
		}
		return nil
	})
	must(b, err)
	must(b, db.Close())
}

// BenchmarkInstantLarge has a second user add a file of 1 GiB (SMARTDRIVE_TEST_DEPTH=deep: 10 GiB)
// that another user owns, over a link of 100 Mbit/s, and send one of 64 MiB that nobody has. Then
// 100 accounts give wrong proofs for 128 MiB while a neighbour works.
func BenchmarkInstantLarge(b *testing.B) {
	const sent, asked, link = 64 * mib, 128 * mib, 12_500 // bytes, bytes, kB/s
	size := int64(depth.Pick(1, 1, 10)) * gib
	for b.Loop() {
		s := startReal(b, b.TempDir())
		made := map[int64]string{} // files by size
		put := func(user *server, size int64) (client.Result, float64) {
			local := made[size]
			if local == "" {
				local = filepath.Join(b.TempDir(), "large")
				made[size] = local
				f, err := os.Create(local)
				must(b, err)
				_, err = io.CopyN(f, rand.NewChaCha8([32]byte{38}), size)
				must(b, errors.Join(err, f.Close()))
			}
			u, err := user.client(b).Uploader(client.UploadOptions{Parallel: 1}) // the proxy limits each connection
			must(b, err)
			src, err := client.FileSource(local)
			must(b, err)
			start := time.Now()
			res, err := u.Put(b.Context(), src, fmt.Sprint("/large", size), client.PutOptions{})
			must(b, err)
			return res, time.Since(start).Seconds()
		}
		first := s.user(b, "first")
		put(first, size)
		small, _ := put(first, asked)

		shaped := *s.user(b, "second")
		proxies := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
		proxy := toxiproxy.NewProxy(proxies, "link", process.Address(b), strings.TrimPrefix(s.url, "http://"))
		must(b, proxy.Start())
		_, err := proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"name":"rate","type":"bandwidth","stream":"upstream","attributes":{"rate":%d}}`, link)))
		must(b, err)
		shaped.url = "http://" + proxy.Listen
		_, sending := put(&shaped, sent)
		sending *= float64(size) / sent
		own := &server{pid: os.Getpid()}
		cpu := own.cpu(b) + s.cpu(b)
		second, took := put(&shaped, size)
		cpu = own.cpu(b) + s.cpu(b) - cpu
		proxy.Stop()
		must(b, os.Remove(made[size]))
		if second.State != client.StateInstant {
			b.Fatalf("the content was sent: %+v", second)
		}
		table(b, fmt.Sprintf("a second user's file of %d GiB over 100 Mbit/s", size/gib), []any{"seconds", took}, []any{"CPU seconds of client and server", cpu.Seconds()},
			[]any{"seconds to send it, from 64 MiB", sending}, []any{"of the time of sending it (under 0.1)", took / sending})
		b.ReportMetric(took/sending, "of-sending")

		neighbour := newQuiet(b, s)
		before := neighbour.measure(b)
		answered := make([]*server, 100)
		ids := make([]string, len(answered))
		wrong := strings.Repeat("00", 32)
		for i := range answered {
			answered[i] = s.user(b, fmt.Sprintf("wrong%d", i))
			var up struct{ ID string }
			answered[i].call(b, "POST", "/uploads", map[string]any{"path": "/f", "size": int64(asked), "digests": map[string]string{"blake3": small.Node.Digest()}}, &up)
			answered[i].call(b, "POST", "/uploads/"+up.ID+"/proof", map[string]any{"alg": "blake3", "answer": wrong}, nil)
			ids[i] = up.ID
		}
		during := neighbour.measure(b)
		left := 0
		for i, user := range answered {
			var up struct{ State string }
			user.call(b, "GET", "/uploads/"+ids[i], nil, &up)
			if up.State == upload.Verifying {
				left++
			}
		}
		rows := [][]any{{"answers that still wait after it", left}}
		for i, name := range []string{"list", "me", "folder", "file"} {
			rows = append(rows, []any{name + ", p99 before and during, ms", before[i].p99(), during[i].p99()})
		}
		table(b, "a neighbour of 100 accounts with wrong answers about 128 MiB", rows...)
		s.stop(b)
	}
	b.ReportMetric(0, "ns/op")
}
