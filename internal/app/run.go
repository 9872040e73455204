package app

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
)

// Run serves until ctx is done. Then it stops the heads, so that requests can finish, and
// afterwards the engines. It calls ready with the URL once requests are served.
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
	a.observe()

	// The engines outlive the heads, because requests in flight may need them.
	engines, stopEngines := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngines()
	background, engineCtx := errgroup.WithContext(engines)
	for _, run := range a.loops() {
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

// loops returns the background loops of this instance's roles. Loops that only one instance runs
// hold a lease.
func (a *App) loops() []loop {
	p, roles := a.platform, a.platform.cfg.Roles
	all := append(p.shared.loops(), p.member.Run, p.kept.Run, a.timers.engine.Run, a.traces.recorder.Run, a.settings.Run, a.mover.rows.Run, p.watchDataDisk)
	if roles.API {
		all = append(all, a.auth.Run, a.sessions.Run, a.access.Run, a.activity.Run, a.downloads.Run)
	}
	if roles.Scheduler {
		all = append(all, a.transport.relay...)
	}
	if roles.Worker {
		all = append(all, a.unlinker.Run, underLease(p.member, leaseAudit, a.auditor.Run), a.auditor.RunPageChecks, underLease(p.member, leaseSample, a.sampler.run), underLease(p.member, leaseCopies, a.housekeeping.keepCopies), underLease(p.member, leaseHooks, a.webhooks.Run))
		all = append(all, a.transport.work...)
		if post := a.notices.postman; post != nil {
			all = append(all, underLease(p.member, leaseMail, post.Run))
		}
	}
	if roles.Export {
		all = append(all, a.exports.Run)
	}
	if roles.Ingest {
		all = append(all, a.intake.Run, a.transport.bundles, underLease(p.member, leaseCompare, a.intake.RunReconciler), underLease(p.member, leaseGather, a.intake.RunGatherer))
	}
	if roles.Scheduler || roles.Worker {
		all = append(all, a.timers.recoverUntilDone, a.links().sealUntilDone)
	}
	return all
}

// ignoreStop returns nil if err is or wraps context.Canceled, else err.
func ignoreStop(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
