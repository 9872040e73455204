package timertest

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/timer"
)

// Benchmark measures a queue on the real clock: the cost of touches, and the delay of due timers
// delivered by an Engine.
func Benchmark(b *testing.B, open func(b *testing.B) timer.Queue) {
	b.Run("Touch", func(b *testing.B) { benchTouch(b, open(b)) })
	b.Run("Due", func(b *testing.B) { BenchmarkDue(b, open(b)) })
}

// Keys returns n distinct random keys of kind Park, the same on every call.
func Keys(n int) []timer.Key {
	r, keys := rand.New(rand.NewPCG(1, 2)), make([]timer.Key, n)
	for i := range keys {
		keys[i].Kind = timer.Park
		binary.LittleEndian.PutUint64(keys[i].ID[:], r.Uint64())
		binary.LittleEndian.PutUint64(keys[i].ID[8:], r.Uint64())
	}
	return keys
}

// ArmAll arms a timer for each key, due after an hour without touches.
func ArmAll(b *testing.B, q timer.Queue, keys []timer.Key) {
	b.Helper()
	batch := make([]timer.Entry, 0, 1000)
	for chunk := range slices.Chunk(keys, cap(batch)) {
		batch = batch[:0]
		for _, k := range chunk {
			batch = append(batch, timer.Entry{Key: k, Gen: 1, Idle: time.Hour, Max: 24 * time.Hour})
		}
		if err := q.Arm(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

// benchTouch touches a million pending timers through the engine from all cores, in an order that
// defeats CPU caches. The keys are in memory, as those of upload sessions are.
func benchTouch(b *testing.B, q timer.Queue) {
	keys := Keys(1_000_000)
	ArmAll(b, q, keys)
	e := timer.New(timer.Options{Queue: q})
	var begun atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		i := int(begun.Add(1)) * 7919
		for pb.Next() {
			if i++; i >= len(keys) {
				i = 0
			}
			e.Touch(keys[i])
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "touches/s")
}

// BenchmarkDue makes 10,000 timers due over one second, with 200,000 others pending, and reports
// the delay of their handlers: 99th percentile and maximum.
func BenchmarkDue(b *testing.B, q timer.Queue) {
	const perSecond = 10_000
	ArmAll(b, q, Keys(200_000)[perSecond:])
	due, lateness := Keys(perSecond), make([]time.Duration, 0, perSecond)
	for round := int64(1); b.Loop(); round++ {
		lateness = append(lateness, dueRound(b, q, due, round)...)
	}
	slices.Sort(lateness)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(lateness[len(lateness)*99/100]), "p99-late-ms")
	b.ReportMetric(ms(lateness[len(lateness)-1]), "max-late-ms")
	b.ReportMetric(0, "ns/op")
}

// dueRound arms keys with gen, due spread over a second, delivers them with an engine, and returns
// how late each was delivered. It fails the benchmark on an error.
func dueRound(b *testing.B, q timer.Queue, keys []timer.Key, gen int64) []time.Duration {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	late, done := make([]time.Duration, len(keys)), atomic.Int64{}
	finished := make(chan struct{})
	e := timer.New(timer.Options{Queue: q, Handlers: map[timer.Kind]timer.Handler{
		timer.Park: func(_ context.Context, f timer.Fired) error {
			n := done.Add(1)
			late[n-1] = time.Since(f.Due.Std())
			if int(n) == len(late) {
				close(finished)
			}
			return nil
		},
	}})
	entries := make([]timer.Entry, len(keys))
	for i, k := range keys {
		entries[i] = timer.Entry{Key: k, Gen: gen, Idle: 100*time.Millisecond + time.Second*time.Duration(i)/time.Duration(len(keys))}
	}
	if err := e.Arm(ctx, entries...); err != nil {
		b.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- e.Run(ctx) }()
	<-finished
	cancel()
	if err := <-stopped; err != nil {
		b.Fatal(err)
	}
	return late
}
