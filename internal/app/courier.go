package app

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"smartdrive/internal/engine/instance"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/stream/dispatch"
	"smartdrive/internal/engine/stream/kafka"
	"smartdrive/internal/engine/stream/outbox"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/intake/ingest"
)

// loop runs until its context is done.
type loop = func(ctx context.Context) error

// records is how records travel from who tells of something to who is told. There are two ways,
// each a list.
type records struct {
	source   stream.Source                // what consumers read
	fired    map[timer.Kind]timer.Handler // of a worker, for those that come as records
	handlers map[timer.Kind]timer.Handler // of a scheduler, for fired timers of uploads
	atOnce   map[timer.Kind]int           // of them
	lags     func(ctx context.Context) ([]stream.Lag, error)
	unsent   func(ctx context.Context) (n int64, oldest time.Duration, err error) // what waits to be sent; nil: nothing is sent
	relay    []loop                                                               // of a scheduler
	work     []loop                                                               // of a worker
	bundles  loop                                                                 // of the intake
}

// courier brings records from who tells of something to who is told.
type courier struct {
	log    *slog.Logger
	member *instance.Member
	outbox *outbox.Outbox
	ways   *ways

	// Made after the way was chosen, which they need.
	timers *timer.Engine
	intake *ingest.Intake
	told   []stream.Consumer // by which people are told

	records
}

// overOutbox is the way within the database: consumers read the outbox. Their sessions do not
// share, so one instance reads, and the others find bundles a few seconds later. A scheduler acts
// on fired timers itself; only dead ones that are replayed are records.
func (c *courier) overOutbox(handlers map[timer.Kind]timer.Handler) {
	c.records = records{
		source:   c.outbox,
		handlers: handlers,
		atOnce:   map[timer.Kind]int{timer.Park: 16, timer.Abandon: 4},
		lags:     c.outbox.Lags,
		work:     []loop{under(c.member, leaseOutbox, c.consume)},
		bundles:  under(c.member, leaseBundle, c.consumeBundles),
	}
}

// overKafka is the way over brokers: a scheduler hands fired timers over to the workers.
func (c *courier) overKafka(broker *kafka.Stream, handlers map[timer.Kind]timer.Handler) {
	publish := dispatch.New(dispatch.Options{Sender: broker, Traced: c.ways.traced}).Publish
	c.records = records{
		source:   broker,
		fired:    handlers,
		handlers: map[timer.Kind]timer.Handler{timer.Park: publish, timer.Abandon: publish},
		atOnce:   map[timer.Kind]int{timer.Park: publishing, timer.Abandon: publishing},
		lags:     broker.Lags,
		unsent:   c.outbox.Waiting,
		relay:    []loop{under(c.member, leaseRelay, broker.RunRelay)},
		work:     []loop{c.consume, broker.RunLevels, broker.RunDead},
		bundles:  c.consumeBundles,
	}
}

// publishing is how many fired timers are on their way to the brokers at once: they share round
// trips.
const publishing = 256

// under is a loop that one instance runs: the one that has the lease.
func under(member *instance.Member, lease string, job loop) loop {
	return func(ctx context.Context) error { return member.Lead(ctx, lease, job) }
}

// delivered is told by the engine of timers. Where it hands timers over to workers, its handler has
// done no more than publish them, which is told already.
func (c *courier) delivered(t timer.Trace) {
	if t.Step == timer.Applied && c.fired[t.Key.Kind] != nil {
		return
	}
	c.ways.traced(t)
}

// consumers are the loops that read fired timers, and what people are to be told.
func (c *courier) consumers() []*stream.Runner {
	fired := dispatch.New(dispatch.Options{Handlers: c.fired, Timers: c.timers, Traced: c.ways.traced})
	var all []*stream.Runner
	for _, one := range append(fired.Consumers(), c.told...) {
		all = append(all, stream.NewRunner(c.source, one, stream.Options{Log: c.log}))
	}
	return all
}

// consume runs all consumers until ctx is done.
func (c *courier) consume(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	for _, r := range c.consumers() {
		running.Go(func() error { return r.Run(ctx) })
	}
	return running.Wait()
}

// consumeBundles reads the records of sealed bundles until ctx is done.
func (c *courier) consumeBundles(ctx context.Context) error {
	return stream.NewRunner(c.source, c.intake.Consumer(), stream.Options{Log: c.log}).Run(ctx)
}
