package app

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/dispatch"
	"example.org/smartdrive/internal/engine/stream/kafka"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer"
)

// loop is a background job. It runs until ctx is done, or returns nil earlier if its work is done.
// An error stops the process.
type loop = func(ctx context.Context) error

// recordFlow holds what depends on how records travel from publishers to consumers: through the
// outbox in the database, or through Kafka.
type recordFlow struct {
	source   stream.Source                // source that consumers read
	fired    map[timer.Kind]timer.Handler // handlers of a worker for fired timers that arrive as records
	handlers map[timer.Kind]timer.Handler // handlers of a scheduler for fired timers of uploads
	atOnce   map[timer.Kind]int           // concurrency of handlers
	lags     func(ctx context.Context) ([]stream.Lag, error)
	unsent   func(ctx context.Context) (n int64, oldest time.Duration, err error) // records that wait for the broker, and the age of the oldest; nil without a broker
	relay    []loop                                                               // loops of a scheduler
	work     []loop                                                               // loops of a worker
	single   bool                                                                 // the source serves one instance at a time
}

// transport carries records from publishers to consumers.
type transport struct {
	log     *slog.Logger
	member  *instance.Member
	modules *modules
	outbox  *outbox.Outbox
	traces  *traces

	recordFlow
}

// useOutbox lets consumers read the outbox. Outbox sessions cannot share the work, so one instance
// reads under a lease, and other instances' bundles wait some seconds. A scheduler handles fired
// timers itself; only replayed dead letters arrive as records.
func (t *transport) useOutbox() {
	t.recordFlow = recordFlow{
		source:   t.outbox,
		handlers: t.uploadHandlers(),
		atOnce:   map[timer.Kind]int{timer.Park: 16, timer.Abandon: 4},
		lags:     t.outbox.Lags,
		work:     []loop{underLease(t.member, leaseOutbox, t.consume)},
		single:   true,
	}
}

// useKafka sets how records travel: a relay sends the outbox to Kafka, and consumers read from
// there. A scheduler only publishes fired timers of uploads, and workers handle them. It starts
// nothing.
func (t *transport) useKafka(broker *kafka.Stream) {
	publish := dispatch.New(dispatch.Options{Sender: broker, OnTrace: t.traces.record}).Publish
	t.recordFlow = recordFlow{
		source:   broker,
		fired:    t.uploadHandlers(),
		handlers: map[timer.Kind]timer.Handler{timer.Park: publish, timer.Abandon: publish},
		atOnce:   map[timer.Kind]int{timer.Park: publishConcurrency, timer.Abandon: publishConcurrency},
		lags:     broker.Lags,
		unsent:   t.outbox.Waiting,
		relay:    []loop{underLease(t.member, leaseRelay, broker.RunRelay)},
		work:     []loop{t.consume, broker.RunLevels, broker.RunDead},
	}
}

// uploadHandlers returns the handlers for timers of uploads.
func (t *transport) uploadHandlers() map[timer.Kind]timer.Handler {
	return map[timer.Kind]timer.Handler{timer.Park: t.modules.handle, timer.Abandon: t.modules.handle}
}

// publishConcurrency is how many fired timers are published at once; they share round trips.
const publishConcurrency = 256

// underLease returns a loop that runs job only while this instance holds the named lease, and
// starts it again after it has returned (instance.Member.Lead).
func underLease(member *instance.Member, lease string, job loop) loop {
	return func(ctx context.Context) error { return member.Lead(ctx, lease, job) }
}

// traceDelivery records a step of the timer engine. It skips Applied for timers that are handed to
// workers, because here the handler has only published them.
func (t *transport) traceDelivery(s timer.Trace) {
	if s.Step == timer.Applied && t.fired[s.Key.Kind] != nil {
		return
	}
	t.traces.record(s)
}

// consumers returns a runner for each consumer of the modules; nil for none. The runners are not
// started.
func (t *transport) consumers() []*stream.Runner {
	var all []*stream.Runner
	for _, one := range t.modules.consumers() {
		all = append(all, stream.NewRunner(t.source, one, stream.Options{Log: t.log}))
	}
	return all
}

// consume runs the consumers of all modules until ctx is done, and returns nil when all have ended.
func (t *transport) consume(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	for _, r := range t.consumers() {
		running.Go(func() error { return r.Run(ctx) })
	}
	return running.Wait()
}

// bundles returns the loop that passes records of sealed bundles to the consumer c. If the source
// serves one instance at a time, the loop runs in one instance, under a lease.
func (t *transport) bundles(c stream.Consumer) loop {
	consume := func(ctx context.Context) error {
		return stream.NewRunner(t.source, c, stream.Options{Log: t.log}).Run(ctx)
	}
	if t.single {
		return underLease(t.member, leaseBundle, consume)
	}
	return consume
}
