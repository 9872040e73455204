//go:build linux

package bench

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/dispatch"
	"example.org/smartdrive/internal/engine/stream/kafka"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/stream/streamtest"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/timertest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// BenchmarkKafkaDispatch measures how many due timers per second move from one Redis to a topic,
// each acknowledged with acks=all before it is settled. For comparison it runs the same timers with
// a handler that does nothing, in the same round.
func BenchmarkKafkaDispatch(b *testing.B) {
	for _, broker := range brokers {
		b.Run(broker.name, func(b *testing.B) {
			const due = 60_000
			var published, idle, busy sample
			for b.Loop() {
				for range rounds(3) {
					q, _, stop := redisQueue(b)
					s, _, end := kafkaStream(b, sqldbtest.Open(b), broker.addresses(b), kafka.Options{})
					d := dispatch.New(dispatch.Options{Sender: s})
					keys := timertest.Keys(2 * due)
					idle.add(publishRate(b, q.Queue, keys[:due], func(context.Context, timer.Fired) error { return nil }))
					own := ownCPU(b)
					published.add(publishRate(b, q.Queue, keys[due:], d.Publish))
					busy.add((ownCPU(b) - own).Seconds() * 1e6 / due)
					end()
					stop()
				}
			}
			table(b, "60,000 timers of 100 accounts that are due in one Redis, "+broker.name,
				[]any{"timers/s leased, published with acks=all, settled (at least 20,000)", published},
				[]any{"of what a handler that does nothing reaches", published.over(idle)},
				[]any{"CPU µs of this process for each, arming it included", busy})
			b.ReportMetric(published.median(), "published/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkKafkaLevels measures how late records return from a retry level of 5 s with 10,000
// waiting records: from their due time until they are durable on their retry topic.
func BenchmarkKafkaLevels(b *testing.B) {
	for _, broker := range brokers {
		b.Run(broker.name, func(b *testing.B) {
			var at99, soonest sample
			for b.Loop() {
				late, early := levelLateness(b, broker.addresses(b))
				at99.add(ms(late))
				soonest.add(ms(early))
			}
			table(b, "10,000 records on a level of 5 s, "+broker.name,
				[]any{"ms late at p99 (under 250)", at99},
				[]any{"ms late of the first (0 or more: none is early)", soonest})
			b.ReportMetric(at99.median(), "p99-late-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// brokers are the one in memory and, if available, Kafka.
var brokers = []struct {
	name      string
	addresses func(b *testing.B) []string
}{
	{"kfake", func(b *testing.B) []string {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		must(b, err)
		b.Cleanup(cluster.Close)
		return cluster.ListenAddrs()
	}},
	{"Kafka", func(b *testing.B) []string { return strings.Split(servicetest.URL(b, servicetest.Kafka), ",") }},
}

// kafkaStream creates a separate stream for the benchmark.
func kafkaStream(b *testing.B, db *sqldb.DB, addresses []string, opt kafka.Options) (*kafka.Stream, *outbox.Outbox, func()) {
	b.Helper()
	silent := slog.New(slog.DiscardHandler)
	o := outbox.New(db, outbox.Options{Source: "smartdrive/bench", Log: silent, Relayed: true})
	opt.Brokers, opt.Namespace, opt.Source, opt.Log = addresses, servicetest.Unique(), "smartdrive/bench", silent
	opt.Backlog, opt.DeadLetters = o, o
	s, err := kafka.New(opt)
	must(b, err)
	must(b, s.Check(b.Context()))
	return s, o, func() { must(b, s.Close()) }
}

// publishRate returns how many due timers per second are handled.
func publishRate(b *testing.B, q timer.Queue, keys []timer.Key, handle timer.Handler) float64 {
	b.Helper()
	accounts := make([]drive.AccountID, 100)
	for i := range accounts {
		accounts[i] = drive.NewID[drive.AccountID]()
	}
	entries := make([]timer.Entry, len(keys))
	for i, k := range keys {
		entries[i] = timer.Entry{Key: k, Gen: 1, Account: accounts[i%len(accounts)]}
	}
	var done atomic.Int64
	finished := make(chan struct{})
	e := timer.New(timer.Options{
		Queue: q, Concurrency: map[timer.Kind]int{timer.Park: 2048},
		Handlers: map[timer.Kind]timer.Handler{timer.Park: func(ctx context.Context, f timer.Fired) error {
			err := handle(ctx, f)
			if err == nil && done.Add(1) == int64(len(keys)) {
				close(finished)
			}
			return err
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
	must(b, <-stopped)
	return float64(len(keys)) / time.Since(begun).Seconds()
}

// levelLateness lets 10,000 records fail once. It returns how late they returned from the first
// level, at the 99th percentile and at least.
func levelLateness(b *testing.B, addresses []string) (at99, least time.Duration) {
	const n = 10_000
	var mu sync.Mutex
	var late []time.Duration
	opt := kafka.Options{Levels: stream.Levels()[:1], OnForward: func(_ stream.Level, d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		late = append(late, d)
	}}
	db := sqldbtest.Open(b)
	s, o, end := kafkaStream(b, db, addresses, opt)
	defer end()
	all := make(chan struct{})
	var failed sync.Map
	var back atomic.Int64
	handle := func(_ context.Context, r stream.Record) error {
		if _, again := failed.LoadOrStore(r.ID, true); !again {
			return errors.New("once")
		}
		if back.Add(1) == n {
			close(all)
		}
		return nil
	}
	ctx, cancel := context.WithCancel(b.Context())
	var loops sync.WaitGroup
	run := func(loop func(context.Context) error) { loops.Go(func() { must(b, loop(ctx)) }) }
	run(s.RunLevels)
	for range 2 {
		w := stream.NewRunner(s, stream.Consumer{
			Name: "w", Topic: stream.TopicUploads, Handle: handle, Batch: 500,
		}, stream.Options{Levels: opt.Levels, Log: slog.New(slog.DiscardHandler)})
		run(w.Run)
	}
	<-time.After(5 * time.Second) // until the consumer groups have assigned their partitions
	for range n / 100 {
		records := streamtest.Records(b, drive.NewID[drive.AccountID](), make([]string, 100)...)
		must(b, db.Write(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return o.Append(ctx, tx, records...) }))
	}
	run(s.RunRelay)
	<-all
	cancel()
	loops.Wait()
	slices.Sort(late)
	return late[len(late)*99/100], late[0]
}
