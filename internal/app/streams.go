package app

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/stream/dispatch"
	"smartdrive/internal/engine/timer"
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

// overOutbox is the way within the database: consumers read the outbox. Their sessions do not
// share, so one instance reads, and the others find bundles a few seconds later. A scheduler acts
// on fired timers itself; only dead ones that are replayed are records.
func (a *App) overOutbox() (records, error) {
	return records{
		source:   a.outbox,
		handlers: a.ledgerHandlers(),
		atOnce:   map[timer.Kind]int{timer.Park: 16, timer.Abandon: 4},
		lags:     a.outbox.Lags,
		work:     []loop{a.one(leaseOutbox, a.consume)},
		bundles:  a.one(leaseBundle, a.consumeBundles),
	}, nil
}

// overKafka is the way over brokers: a scheduler hands fired timers over to the workers.
func (a *App) overKafka() (records, error) {
	broker, err := a.newBroker(a.source())
	if err != nil {
		return records{}, err
	}
	a.shared.broker = broker
	publish := dispatch.New(dispatch.Options{Sender: broker, Traced: a.traced}).Publish
	return records{
		source:   broker,
		fired:    a.ledgerHandlers(),
		handlers: map[timer.Kind]timer.Handler{timer.Park: publish, timer.Abandon: publish},
		atOnce:   map[timer.Kind]int{timer.Park: publishing, timer.Abandon: publishing},
		lags:     broker.Lags,
		unsent:   a.outbox.Waiting,
		relay:    []loop{a.one(leaseRelay, broker.RunRelay)},
		work:     []loop{a.consume, broker.RunLevels, broker.RunDead},
		bundles:  a.consumeBundles,
	}, nil
}

// publishing is how many fired timers are on their way to the brokers at once: they share round
// trips.
const publishing = 256

// one is a loop that one instance runs.
func (a *App) one(lease string, job loop) loop {
	return func(ctx context.Context) error { return a.member.Lead(ctx, lease, job) }
}

// traced makes the way of a timer visible in the log (D7).
func (a *App) traced(ctx context.Context, f timer.Fired, step dispatch.Step, at time.Time) {
	a.log.DebugContext(ctx, "timer on its way", "step", string(step), "timer", f.Key, "gen", f.Gen, "due", f.Due, "late", at.Sub(f.Due.Std()))
}

// consumers are the loops that read fired timers.
func (a *App) consumers() []*stream.Runner {
	fired := dispatch.New(dispatch.Options{Handlers: a.records.fired, Timers: a.engine, Traced: a.traced})
	var all []*stream.Runner
	for _, c := range fired.Consumers() {
		all = append(all, stream.NewRunner(a.records.source, c, stream.Options{Log: a.log}))
	}
	return all
}

// consume runs all consumers until ctx is done.
func (a *App) consume(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	for _, r := range a.consumers() {
		running.Go(func() error { return r.Run(ctx) })
	}
	return running.Wait()
}

// consumeBundles reads the records of sealed bundles until ctx is done.
func (a *App) consumeBundles(ctx context.Context) error {
	return stream.NewRunner(a.records.source, a.intake.Consumer(), stream.Options{Log: a.log}).Run(ctx)
}
