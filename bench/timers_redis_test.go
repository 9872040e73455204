//go:build linux

package bench

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/redis"
	"example.org/smartdrive/internal/engine/timer/timertest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// BenchmarkTimersRedis measures the shared queue on one Redis: memory per pending timer, due timers
// leased and settled per second, their lateness, and the rate of touches. The baseline is the round
// trip: the PINGs per second of one connection within the same minute.
func BenchmarkTimersRedis(b *testing.B) {
	const pending, due = 100_000, 100_000
	var pings, leased, lateness, touched, own, theirs sample
	var bytes float64
	for b.Loop() {
		for range rounds(3) {
			q, client, stop := redisQueue(b)
			pings.add(pingRate(b, client))
			keys := timertest.Keys(pending + due)
			timertest.ArmAll(b, q.Queue, keys[:pending])
			bytes = float64(q.memory(b, client)) / pending
			busy, redisBusy := ownCPU(b), redisCPU(b, client)
			leased.add(dueRate(b, q.Queue, keys[pending:]))
			own.add((ownCPU(b) - busy).Seconds() * 1e6 / due)
			theirs.add((redisCPU(b, client) - redisBusy).Seconds() * 1e6 / due)
			lateness.add(ms(latenessAt99(b, q.Queue, keys[pending:pending+10_000])))
			touched.add(touchRate(b, q.Queue, keys[:pending]))
			stop()
		}
	}
	table(b, "100,000 timers pending in one Redis",
		[]any{"bytes of Redis each (at most 300)", bytes},
		[]any{"due timers/s leased and settled (at least 20,000)", leased},
		[]any{"for each PING of one connection", leased.over(pings)},
		[]any{"CPU µs of Redis for each, arming it included (20,000/s: at most 50)", theirs},
		[]any{"CPU µs of this process for each, arming it included", own},
		[]any{"ms late at p99, 10,000 coming due in a second (under 250)", lateness},
		[]any{"touches/s, each of another timer, that Redis has received", touched})
	b.ReportMetric(bytes, "B/timer")
	b.ReportMetric(leased.median(), "due/s")
	b.ReportMetric(lateness.median(), "p99-late-ms")
	b.ReportMetric(0, "ns/op")
}

// sharedQueue is a queue in Redis with its own namespace.
type sharedQueue struct {
	*redis.Queue
	namespace string
}

// redisQueue returns a running queue, a client, and stop, which stops and deletes the queue.
func redisQueue(b *testing.B) (*sharedQueue, *goredis.Client, func()) {
	b.Helper()
	addr := strings.TrimSuffix(strings.TrimPrefix(servicetest.URL(b, servicetest.Redis), "redis://"), "/")
	name := servicetest.Unique()
	q := &sharedQueue{redis.New(redis.Options{Addrs: []string{addr}, Namespace: name}), name}
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	ctx, cancel := context.WithCancel(b.Context())
	var run sync.WaitGroup
	run.Go(func() { must(b, q.Run(ctx)) })
	return q, client, func() {
		cancel()
		run.Wait()
		q.each(b, client, func(ctx context.Context, key string) { must(b, client.Unlink(ctx, key).Err()) })
		must(b, client.Close())
		must(b, q.Close())
	}
}

// each calls do for every key of the queue.
func (q *sharedQueue) each(b *testing.B, client *goredis.Client, do func(ctx context.Context, key string)) {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	keys := client.Scan(ctx, 0, "{"+q.namespace+":*", 10_000).Iterator()
	for keys.Next(ctx) {
		do(ctx, keys.Val())
	}
	must(b, keys.Err())
}

// memory returns the memory of all keys of the queue, as reported by Redis.
func (q *sharedQueue) memory(b *testing.B, client *goredis.Client) (sum int64) {
	q.each(b, client, func(ctx context.Context, key string) {
		n, err := client.MemoryUsage(ctx, key, 0).Result()
		must(b, err)
		sum += n
	})
	return sum
}

// pingRate returns the PINGs per second of one connection.
func pingRate(b *testing.B, client *goredis.Client) float64 {
	const n = 5000
	begun := time.Now()
	for range n {
		must(b, client.Ping(b.Context()).Err())
	}
	return n / time.Since(begun).Seconds()
}

// redisCPU returns the CPU time of the Redis thread that runs commands. On a shared machine it is
// more reliable than elapsed time.
func redisCPU(b *testing.B, client *goredis.Client) (sum time.Duration) {
	b.Helper()
	info := client.InfoMap(b.Context(), "cpu").Val()["CPU"]
	for _, name := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		seconds, err := time.ParseDuration(info[name] + "s")
		must(b, err)
		sum += seconds
	}
	return sum
}

// deliverAll arms timers. It returns the lateness of each handler call, and the time from the first
// to the last.
func deliverAll(b *testing.B, q timer.Queue, keys []timer.Key, gen int64, idle func(i int) time.Duration) ([]time.Duration, time.Duration) {
	b.Helper()
	entries := make([]timer.Entry, len(keys))
	for i, k := range keys {
		entries[i] = timer.Entry{Key: k, Gen: gen, Idle: idle(i)}
	}
	late, done, finished := make([]time.Duration, len(keys)), atomic.Int64{}, make(chan struct{})
	e := timer.New(timer.Options{
		Queue:       q,
		Concurrency: map[timer.Kind]int{timer.Park: 1024},
		Handlers: map[timer.Kind]timer.Handler{timer.Park: func(_ context.Context, f timer.Fired) error {
			if n := done.Add(1); int(n) <= len(late) {
				if late[n-1] = time.Since(f.Due.Std()); int(n) == len(late) {
					close(finished)
				}
			}
			return nil
		}},
	})
	for chunk := range slices.Chunk(entries, 10_000) {
		must(b, e.Arm(b.Context(), chunk...))
	}
	ctx, cancel := context.WithCancel(b.Context())
	stopped := make(chan error, 1)
	begun := time.Now()
	go func() { stopped <- e.Run(ctx) }()
	<-finished
	cancel()
	must(b, <-stopped) // the last outcomes are settled by then
	return late, time.Since(begun)
}

// dueRate returns how many due timers are delivered per second.
func dueRate(b *testing.B, q timer.Queue, keys []timer.Key) float64 {
	_, took := deliverAll(b, q, keys, 1, func(int) time.Duration { return 0 })
	return float64(len(keys)) / took.Seconds()
}

// latenessAt99 returns the 99th percentile of the lateness of timers that come due evenly over a
// second.
func latenessAt99(b *testing.B, q timer.Queue, keys []timer.Key) time.Duration {
	late, _ := deliverAll(b, q, keys, 2, func(i int) time.Duration {
		return 500*time.Millisecond + time.Second*time.Duration(i)/time.Duration(len(keys))
	})
	slices.Sort(late)
	return late[len(late)*99/100]
}

// touchRate returns how many touches of distinct timers reach Redis per second.
func touchRate(b *testing.B, q *redis.Queue, keys []timer.Key) float64 {
	const each = 2
	begun := time.Now()
	var all sync.WaitGroup
	for worker := range each {
		all.Go(func() {
			for i := worker; i < len(keys); i += each {
				q.Touch(keys[i])
			}
		})
	}
	all.Wait()
	must(b, q.Flush(b.Context()))
	return float64(len(keys)) / time.Since(begun).Seconds()
}
