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

// composeStream connects the outbox with the brokers, where there are some, and makes the way of fired timers over them.
func (a *App) composeStream() (err error) {
	opt := dispatch.Options{Timers: arming{a}, Traced: a.traced}
	if a.cfg.Mode() == config.Cluster {
		if a.shared.broker, err = a.newBroker(a.source()); err != nil {
			return err
		}
		opt.Sender = a.shared.broker
		opt.Handlers = a.ledgerHandlers()
	}
	a.dispatch = dispatch.New(opt)
	return nil
}

// arming is the engine, which is made after what needs it here.
type arming struct{ a *App }

// Arm implements dispatch.Arm.
func (x arming) Arm(ctx context.Context, entries ...timer.Entry) error {
	return x.a.engine.Arm(ctx, entries...)
}

// traced makes the way of a timer visible in the log (D7).
func (a *App) traced(ctx context.Context, f timer.Fired, step dispatch.Step, at time.Time) {
	a.log.DebugContext(ctx, "timer on its way", "step", string(step), "timer", f.Key, "gen", f.Gen, "due", f.Due, "late", at.Sub(f.Due.Std()))
}

// consumers are the loops that read the stream: fired timers, and without a broker only dead ones that are replayed.
func (a *App) consumers() []*stream.Runner {
	var source stream.Source = a.outbox
	if a.shared.broker != nil {
		source = a.shared.broker
	}
	var all []*stream.Runner
	for _, c := range a.dispatch.Consumers() {
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
