//go:build linux

package bench

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/redis"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// counted is an upload service whose calls to components are counted. No server runs, so nothing
// else calls them.
type counted struct {
	*upload.Sessions
	site   *uploadtest.Site
	calls  sqldbtest.Counter
	redis  *goredis.Client // nil: embedded
	queue  *redis.Queue    // nil: embedded
	stored atomic.Int64    // requests to the store
}

// BenchmarkClusterCosts counts the calls to each component for an upload in parts of 8 MiB, on the
// cluster and embedded. The results do not depend on the machine.
func BenchmarkClusterCosts(b *testing.B) {
	b.Run("embedded", func(b *testing.B) { countColumn(b, countedEmbedded(b)) })
	b.Run("cluster", func(b *testing.B) { countColumn(b, countedCluster(b)) })
}

// countColumn prints the calls of uploads of several sizes.
func countColumn(b *testing.B, c *counted) {
	rows := [][]any{{"", "write transactions", "statements", "of them while parts come", "Redis scripts", "of them for each part", "S3 requests"}}
	body, who := noise(partSize), c.site.Account(b, 0)
	c.file(b, who, body[:4<<10], 0) // warm up connections and prepared statements
	c.upload(b, who, body, 2)
	for b.Loop() {
		for _, parts := range []int{1, 16, 100} {
			at := c.seen(b)
			during := c.upload(b, who, body, parts)
			d := c.seen(b).less(at)
			rows = append(rows, []any{
				fmt.Sprintf("parts: %d", parts), d.writes, d.statements, during.statements, d.scripts, float64(during.scripts) / float64(parts), d.stored,
			})
			if d.writes != 3 || during.statements != 0 {
				b.Errorf("%d parts: %d transactions and %d statements while parts came, want 3 and 0", parts, d.writes, during.statements)
			}
		}
		at := c.seen(b)
		c.file(b, who, body[:4<<10], 1)
		d := c.seen(b).less(at)
		rows = append(rows, []any{"a file of 4 KiB, one request", d.writes, d.statements, 0, d.scripts, "", d.stored})
	}
	table(b, "calls of one upload, "+strings.TrimPrefix(b.Name(), "BenchmarkClusterCosts/")+" (goal: 3 transactions and none for parts)", rows...)
	b.ReportMetric(0, "ns/op")
}

// totals counts the calls so far.
type totals struct{ writes, statements, scripts, stored int64 }

// less returns t - u.
func (t totals) less(u totals) totals {
	return totals{t.writes - u.writes, t.statements - u.statements, t.scripts - u.scripts, t.stored - u.stored}
}

// seen returns the calls so far.
func (c *counted) seen(b *testing.B) totals {
	t := totals{writes: c.site.DB.Stats().Writes.Load(), stored: c.stored.Load()}
	t.statements = int64(c.calls.Count(sqldbtest.Exec) + c.calls.Count(sqldbtest.Query))
	if c.redis != nil {
		all := commands(b, c.redis)
		t.scripts = int64(all["evalsha"] + all["eval"])
	}
	return t
}

// upload sends a file part by part with distinct bytes, and returns the calls made during the
// parts.
func (c *counted) upload(b *testing.B, who drive.Who, body []byte, parts int) (during totals) {
	b.Helper()
	size := drive.ByteSize(parts * len(body))
	v, err := c.Begin(b.Context(), who, upload.Begin{Path: uploadtest.Path(b, fmt.Sprintf("/%d", parts)), Size: size, PartSize: partSize}, nil)
	must(b, err)
	begun := c.seen(b)
	for n := range parts {
		body[0], body[1] = byte(parts), byte(n)
		must(b, c.Put(b.Context(), who, v.ID, upload.PutPart{N: n, Size: partSize}, bytes.NewReader(body)))
	}
	if c.queue != nil {
		must(b, c.queue.Flush(b.Context())) // as its loop does every 20 ms
	}
	during = c.seen(b).less(begun)
	_, _, err = c.Complete(b.Context(), who, v.ID, upload.Complete{})
	must(b, err)
	return during
}

// file sends a whole file in one request.
func (c *counted) file(b *testing.B, who drive.Who, body []byte, no int) {
	b.Helper()
	body[2] = byte(no)
	p := upload.PutFile{Path: uploadtest.Path(b, fmt.Sprintf("/small%d", no)), Size: drive.ByteSize(len(body))}
	_, _, err := c.PutFile(b.Context(), who, p, bytes.NewReader(body))
	must(b, err)
}

func countedEmbedded(b *testing.B) *counted {
	c := new(counted)
	c.site = uploadtest.New(b, uploadtest.Options{DB: sqldb.Options{Connector: c.calls.Connector}})
	c.Sessions = c.site.Sessions
	return c
}

// countedCluster returns uploads on MariaDB, a separate Redis and an S3 server.
func countedCluster(b *testing.B) *counted {
	on := startBacking(b, servicetest.Redis, servicetest.S3)
	c := &counted{redis: goredis.NewClient(&goredis.Options{Addr: on.redis.Addr()})}
	b.Cleanup(func() { must(b, c.redis.Close()) })
	c.queue = redis.New(redis.Options{Addrs: []string{on.redis.Addr()}})
	b.Cleanup(func() { must(b, c.queue.Close()) })
	c.site = mysqlSite(b, &c.calls)
	bucket := countedBucket(b, on.s3.URL(), c)
	c.Sessions = c.over(b, bucket.Staging, bucket.Blobs, c.queue, upload.Options{})
	return c
}

// mysqlSite is a site on the shared MySQL server; its other components are embedded and unused.
func mysqlSite(b *testing.B, calls *sqldbtest.Counter) *uploadtest.Site {
	b.Helper()
	b.Setenv("SMARTDRIVE_TEST_DB", "mysql")
	b.Setenv("SMARTDRIVE_TEST_TWICE", "")
	return uploadtest.New(b, uploadtest.Options{DB: sqldb.Options{Connector: calls.Connector}})
}

// over builds Sessions on the site's database and the given components.
func (c *counted) over(b *testing.B, staging blob.Staging, store blob.Store, q timer.Queue, opt upload.Options) *upload.Sessions {
	b.Helper()
	opt.Log = slog.New(slog.DiscardHandler)
	s := upload.New(upload.Dependencies{
		DB: c.site.DB, Tree: c.site.Tree, Staging: staging, Store: store, Timers: timer.New(timer.Options{Queue: q}),
		Events: outbox.New(c.site.DB, outbox.Options{Source: "smartdrive/bench", Log: opt.Log}),
	}, opt)
	b.Cleanup(func() { must(b, s.Close()) })
	return s
}

func countedBucket(b *testing.B, where string, c *counted) *s3.Bucket {
	b.Helper()
	u, err := url.Parse(where)
	must(b, err)
	secret, _ := u.User.Password()
	bucket, err := s3.New(s3.Options{
		Endpoint: u.Host, Bucket: strings.Trim(u.Path, "/"), AccessKey: u.User.Username(), SecretKey: secret, Insecure: true,
		Redis: c.redis, Transport: countedRequests{http.DefaultTransport, &c.stored}, Log: slog.New(slog.DiscardHandler),
	})
	must(b, err)
	return bucket
}

// countedRequests counts the requests to the object store.
type countedRequests struct {
	http.RoundTripper
	n *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (t countedRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	t.n.Add(1)
	return t.RoundTripper.RoundTrip(r)
}
