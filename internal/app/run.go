package app

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
)

// Run serves until ctx is done. Then it stops the heads (the servers of requests), so that requests
// can finish, and afterwards the engines (the loops in the background). It calls ready with the URL
// once requests are served. A value in reload makes it load the TLS certificate again. A failed
// engine or head ends it with that error.
func (a *App) Run(ctx context.Context, version string, reload <-chan struct{}, ready func(url string)) error {
	p := a.platform
	api := a.api(version, server.NewLimiter[drive.UserID](p.cfg.UserRequests))
	for operation := range p.cfg.CreationIntervals {
		if !api.HasIntervals(operation) {
			return fmt.Errorf("--creation-intervals: %q has no interval; use operations that take an Idempotency-Key (docs/api.md), except POST /admin/users and POST /batch", operation)
		}
	}
	srv, err := a.server(ctx, api, ready)
	if err != nil {
		return err
	}
	if err := srv.Listen(ctx); err != nil {
		return err
	}
	control, err := listenControl(ctx, p.cfg.Data, a.console().handler(api), p.log)
	if err != nil {
		return err
	}
	p.modules.observe(a.metrics)

	// The engines outlive the heads, because requests in flight may need them.
	engines, stopEngines := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngines()
	background, engineCtx := errgroup.WithContext(engines)
	for _, run := range p.modules.loops() {
		background.Go(func() error { return run(engineCtx) })
	}

	heads, headCtx := errgroup.WithContext(ctx)
	heads.Go(func() error { return srv.Run(headCtx) })
	heads.Go(func() error { return control.run(headCtx) })
	heads.Go(func() error { return reloadOn(headCtx, p.log, srv, reload) })
	heads.Go(func() error { // a failed engine stops the heads
		select {
		case <-engineCtx.Done():
			return context.Cause(engineCtx)
		case <-headCtx.Done():
			return nil
		}
	})
	err = heads.Wait()
	stopEngines()
	return errors.Join(err, ignoreStop(background.Wait()))
}

// ignoreStop returns nil if err is or wraps context.Canceled, else err.
func ignoreStop(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
