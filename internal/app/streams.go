package app

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"smartdrive/internal/base/config"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/stream/dispatch"
	"smartdrive/internal/engine/timer"
)

// composeStream connects the outbox with the brokers, where there are some.
func (a *App) composeStream() (err error) {
	if a.cfg.Mode() == config.Cluster {
		a.shared.broker, err = a.newBroker(a.source())
	}
	return err
}

// traced makes the way of a timer visible in the log (D7).
func (a *App) traced(ctx context.Context, f timer.Fired, step dispatch.Step, at time.Time) {
	a.log.DebugContext(ctx, "timer on its way", "step", string(step), "timer", f.Key, "gen", f.Gen, "due", f.Due, "late", at.Sub(f.Due.Std()))
}

// consumers are the loops that read the stream: fired timers, and without a broker only dead ones that are replayed.
func (a *App) consumers() []*stream.Runner {
	var source stream.Source = a.outbox
	opt := dispatch.Options{Timers: a.engine, Traced: a.traced}
	if a.shared.broker != nil {
		source, opt.Handlers = a.shared.broker, a.ledgerHandlers()
	}
	var all []*stream.Runner
	for _, c := range dispatch.New(opt).Consumers() {
		all = append(all, stream.NewRunner(source, c, stream.Options{Log: a.log}))
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
