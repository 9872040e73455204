package s3

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/engine/timer"
	timers "example.org/smartdrive/internal/engine/timer/redis"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// BenchmarkPartEvents measures the Redis cost of a part whose bytes are in the store: its journal
// entry, one round trip, and the touch of its upload's timer, which is batched. 64 parts are in
// flight. The baseline is PING from as many goroutines over the same connections. At 30,000 events
// a second Redis has 33 µs for each.
func BenchmarkPartEvents(b *testing.B) {
	const uploads, parts, writers = 100, 400, 64
	s := openBucket(b).Staging
	queue := timers.New(timers.Options{Addrs: []string{strings.TrimPrefix(servicetest.URL(b, servicetest.Redis), "redis://")}, Namespace: servicetest.Unique()})
	b.Cleanup(func() { _ = queue.Close() })
	var redisBusy float64 // CPU seconds
	for b.Loop() {
		leases, refs := claimMany(b, s, uploads, parts)
		pings := rate(b, writers, len(leases), func(int) error { return s.j.redis.Ping(b.Context()).Err() })
		redisBusy = -redisSeconds(b, s.j.redis)
		events := rate(b, writers, len(leases), func(i int) error {
			l := leases[i]
			queue.Touch(timer.Key{Kind: timer.Park, ID: l.id})
			e := entry{Part: blob.Part{N: l.n, Size: 1, Session: blobtest.Session}, gen: 1, etag: "d41d8cd98f00b204e9800998ecf8427e"}
			e.CV[0] = 1
			return s.accept(b.Context(), refs[i/parts], l, e)
		})
		redisBusy += redisSeconds(b, s.j.redis)
		b.ReportMetric(events, "events/s(goal:30000)")
		b.ReportMetric(redisBusy/float64(len(leases))*1e6, "redis-us/event(goal:33)")
		b.ReportMetric(events/pings, "per-ping")
		b.ReportMetric(0, "ns/op")
		flushRedis(b, s)
	}
}

// redisSeconds returns the CPU seconds used by Redis, which are more reliable than wall time on a
// shared machine.
func redisSeconds(b *testing.B, r redis.Cmdable) (sum float64) {
	b.Helper()
	info, err := r.Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread" {
			v, _ := strconv.ParseFloat(value, 64)
			sum += v
		}
	}
	return sum
}

// claimMany returns leases of parts, without sending bytes.
func claimMany(b *testing.B, s *Staging, uploads, parts int) (all []*lease, refs []blob.Ref) {
	b.Helper()
	s.lease = time.Hour
	for range uploads {
		ref := newRef(blob.UnknownSize)
		if _, err := s.j.run(b.Context(), createScript, ref.ID, "mpu", "incarnation"); err != nil {
			b.Fatal(err)
		}
		refs = append(refs, ref)
	}
	all = make([]*lease, uploads*parts)
	rate(b, 64, len(all), func(i int) (err error) {
		all[i], err = s.claim(b.Context(), refs[i/parts], blob.Write{N: i % parts, Gen: 1, Size: 1}, "write")
		return err
	})
	return all, refs
}

// rate calls do n times from several goroutines and returns the calls per second.
func rate(b *testing.B, goroutines, n int, do func(i int) error) float64 {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range goroutines {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(began).Seconds()
}
