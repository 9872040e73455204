//go:build linux

package bench

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	togetherConns    = 32
	togetherAccounts = 16
	togetherFiles    = 2000
)

// BenchmarkClusterTogether sends 2,000 files of 4 KiB over 32 connections, one request each: all
// for one account, whose ledger is a single row, and for 16 accounts. It counts the database
// statements per file.
func BenchmarkClusterTogether(b *testing.B) {
	columns := bothColumns(b)
	questions := asked(b, columns[1].on)
	body := noise(clusterSize)
	type figure struct{ rate, cpu, asked sample }
	figures := map[string]*figure{}
	no := 0
	for b.Loop() {
		users := map[*site][]*server{}
		for _, s := range columns {
			for i := range togetherAccounts {
				users[s] = append(users[s], s.user(b, fmt.Sprintf("u%d", i)))
			}
		}
		for round := range rounds(3) + 1 {
			for i := range 2 * len(columns) {
				s, accounts := columns[(i+round)%2], 1
				if i >= 2 {
					accounts = togetherAccounts
				}
				no++
				key := fmt.Sprintf("%s, %d", s.name, accounts)
				if figures[key] == nil {
					figures[key] = &figure{}
				}
				cpu, before, start := s.server.cpu(b), questions(), time.Now()
				sendTogether(b, users[s][:accounts], body, no)
				took := time.Since(start)
				if round == 0 {
					continue
				}
				f := figures[key]
				f.rate.add(togetherFiles / took.Seconds())
				f.cpu.add(ms(s.server.cpu(b)-cpu) / togetherFiles)
				f.asked.add(float64(questions()-before) / togetherFiles)
			}
		}
	}
	rows := [][]any{{"", "files/s", "CPU ms a file", "statements at the server a file"}}
	for _, accounts := range []int{1, togetherAccounts} {
		own, other := figures[fmt.Sprintf("%s, %d", columns[0].name, accounts)], figures[fmt.Sprintf("%s, %d", columns[1].name, accounts)]
		rows = append(rows,
			[]any{fmt.Sprintf("embedded, %d accounts", accounts), own.rate, own.cpu},
			[]any{fmt.Sprintf("cluster, %d accounts", accounts), other.rate, other.cpu, other.asked},
			[]any{"cluster ÷ embedded", other.rate.over(own.rate), other.cpu.over(own.cpu)})
		b.ReportMetric(other.rate.over(own.rate).median(), fmt.Sprintf("rate-ratio-%d", accounts))
		b.ReportMetric(other.asked.median(), fmt.Sprintf("statements-%d", accounts))
	}
	table(b, fmt.Sprintf("%d files of 4 KiB, %d connections", togetherFiles, togetherConns), rows...)
	b.ReportMetric(0, "ns/op")
}

// BenchmarkClusterBatch sends 10,000 files of 10 KiB in batches of 250 over 4 connections, to an
// embedded server and to an instance of the full cluster. For comparison it writes as many bytes
// directly to the object store, one object per file over 32 connections.
func BenchmarkClusterBatch(b *testing.B) {
	columns := bothColumns(b)
	questions := asked(b, columns[1].on)
	figures := make([]column, len(columns))
	var each, alone, asStreams sample
	objects := storeAlone(b, columns[1].on)
	no := uint64(0)
	for b.Loop() {
		for round := range rounds(3) + 1 {
			if rate, streams := objects(true), objects(false); round > 0 {
				alone.add(rate)
				asStreams.add(streams)
			}
			for i := range columns {
				i = (i + round) % len(columns)
				before := questions()
				no++
				r := sendBatches(b, no, columns[i].server)
				if round == 0 {
					continue
				}
				figures[i].add(r)
				if columns[i].on != nil {
					each.add(float64(questions()-before) / smallFiles)
				}
			}
		}
	}
	table(b, "10,000 files of 10 KiB in batches", []any{"", "files/s", "CPU s", "statements at the server a file"},
		[]any{"embedded", figures[0].rate, figures[0].cpu}, []any{"cluster", figures[1].rate, figures[1].cpu, each},
		[]any{"the object store alone", alone}, []any{"the same, signed as streams", asStreams},
		[]any{"cluster ÷ embedded", figures[1].rate.over(figures[0].rate), figures[1].cpu.over(figures[0].cpu)},
		[]any{"cluster ÷ the object store alone", figures[1].rate.over(alone)})
	b.ReportMetric(figures[1].rate.median(), "files/s")
	b.ReportMetric(0, "ns/op")
}

// storeAlone returns a function that writes the benchmark's files to the object store with the
// server's client library, and returns the files per second. whole signs each body as a whole, as
// the server does; otherwise bodies are signed as streams, the library's default.
func storeAlone(b *testing.B, on *backing) func(whole bool) float64 {
	b.Helper()
	u, err := url.Parse(on.s3.URL())
	must(b, err)
	secret, _ := u.User.Password()
	api, err := minio.NewCore(u.Host, &minio.Options{Creds: credentials.NewStaticV4(u.User.Username(), secret, ""), Region: "us-east-1"})
	must(b, err)
	content, no := noise(smallSize), 0
	return func(whole bool) float64 {
		no++
		var g errgroup.Group
		g.SetLimit(togetherConns)
		start := time.Now()
		for n := range smallFiles {
			g.Go(func() error {
				opts, sum := minio.PutObjectOptions{DisableContentSha256: whole}, ""
				if whole {
					sum = fmt.Sprintf("%x", sha256.Sum256(content))
				}
				_, err := api.PutObject(b.Context(), strings.Trim(u.Path, "/"), fmt.Sprintf("alone/%d/%d", no, n), bytes.NewReader(content), smallSize, "", sum, opts)
				return err
			})
		}
		must(b, g.Wait())
		return smallFiles / time.Since(start).Seconds()
	}
}

// sendTogether sends files over connections that are distributed among the users.
func sendTogether(b *testing.B, users []*server, content []byte, no int) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for c := range togetherConns {
		all.Go(func() {
			w, body := dial(b, users[c%len(users)]), slices.Clone(content)
			defer w.conn.Close()
			for n := next.Add(1) - 1; n < togetherFiles; n = next.Add(1) - 1 {
				binary.LittleEndian.PutUint64(body, uint64(no)<<32|uint64(n))
				if err := w.put(fmt.Sprintf("/api/v1/files/%d/%d?parents=true", no, n), body, 1); err != nil {
					b.Errorf("file %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// asked returns a function that returns the number of statements received by the database server.
func asked(b *testing.B, on *backing) func() int64 {
	b.Helper()
	db, err := sqldb.Open(b.Context(), sqldb.Options{MySQL: on.mysql.URL() + "smartdrive", ReadOnly: true})
	must(b, err)
	b.Cleanup(func() { must(b, db.Close()) })
	return func() (n int64) {
		const query = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'"
		must(b, db.QueryRow(b.Context(), query).Scan(&n))
		return n
	}
}
