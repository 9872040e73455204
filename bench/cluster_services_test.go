//go:build linux

package bench

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/services"
)

// backing is the set of services of a benchmark's own cluster. Nothing else uses them, so their CPU
// time and counters belong to the benchmark. MariaDB syncs each commit, like SQLite; Redis syncs
// its log once a second; the S3 server does not sync.
type backing struct {
	mysql, redis, s3, kafka *services.Server
}

// startBacking starts the wanted services.
func startBacking(b *testing.B, wanted ...servicetest.Service) *backing {
	b.Helper()
	root, err := services.Checkout()
	must(b, err)
	tools, dir, c := services.Open(root, nil), b.TempDir(), &backing{}
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	b.Cleanup(cancel)
	var all sync.WaitGroup
	for _, s := range wanted {
		at, opt := filepath.Join(dir, string(s)), services.Options{Durable: true, Bound: true}
		server, err := c.get(ctx, tools, s, at, opt)
		if err != nil {
			servicetest.Missing(b, s, err.Error())
		}
		b.Cleanup(func() { must(b, server.Kill(context.Background())) })
		all.Go(func() {
			if err := server.Start(ctx); err != nil {
				b.Errorf("start %s: %v", s, err)
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return c
}

func (c *backing) get(ctx context.Context, tools *services.Tools, s servicetest.Service, dir string, opt services.Options) (x *services.Server, err error) {
	switch s {
	case servicetest.MySQL:
		c.mysql, err = tools.MySQL(ctx, dir, opt)
		return c.mysql, err
	case servicetest.Redis:
		c.redis, err = tools.Redis(ctx, dir, opt)
		return c.redis, err
	case servicetest.S3:
		c.s3, err = tools.S3(ctx, dir, opt)
		return c.s3, err
	default:
		c.kafka, err = tools.Kafka(ctx, dir, opt)
		return c.kafka, err
	}
}

// flags returns the server flags for a full cluster on these services.
func (c *backing) flags() []string {
	return []string{"--db", c.mysql.URL() + "smartdrive", "--redis", c.redis.URL(), "--blobs", c.s3.URL(), "--kafka", c.kafka.URL()}
}

// cpu returns the CPU time that each service has used; empty if c is nil.
func (c *backing) cpu(b *testing.B) map[servicetest.Service]time.Duration {
	b.Helper()
	used := map[servicetest.Service]time.Duration{}
	if c == nil {
		return used
	}
	for name, s := range map[servicetest.Service]*services.Server{
		servicetest.MySQL: c.mysql, servicetest.Redis: c.redis, servicetest.S3: c.s3, servicetest.Kafka: c.kafka,
	} {
		used[name] = (&server{pid: s.PID()}).cpu(b)
	}
	return used
}

// commands returns how often Redis ran each command, including those within scripts.
func commands(b *testing.B, client *goredis.Client) map[string]int {
	b.Helper()
	counts := map[string]int{}
	for name, stat := range client.InfoMap(b.Context(), "commandstats").Val()["Commandstats"] {
		calls, _, _ := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
		n, err := strconv.Atoi(calls)
		must(b, err)
		counts[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	return counts
}
