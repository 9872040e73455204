package app

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/server"
)

// Run serves until ctx is done and then stops: first the heads, so that no request is cut, then the
// engines. ready is called with the URL once requests are answered.
func (a *App) Run(ctx context.Context, version string, reload <-chan struct{}, ready func(url string)) error {
	g := a.ground
	api := a.api(version, server.NewGate[drive.UserID](g.cfg.UserRequests))
	for operation := range g.cfg.CreationIntervals {
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
	control, err := listenControl(ctx, g.cfg.Data, a.console().handler(api), g.log)
	if err != nil {
		return err
	}
	a.observe()

	// The engines outlive the heads: a request that is being answered may still need them.
	engines, stopEngines := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngines()
	background, engineCtx := errgroup.WithContext(engines)
	for _, run := range a.loops() {
		background.Go(func() error { return run(engineCtx) })
	}

	heads, headCtx := errgroup.WithContext(ctx)
	heads.Go(func() error { return srv.Run(headCtx) })
	heads.Go(func() error { return control.run(headCtx) })
	heads.Go(func() error { return reloadOn(headCtx, g.log, srv, reload) })
	heads.Go(func() error { // an engine that fails takes the heads with it
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

// loops are what runs behind the heads, by the roles of this instance. A shared component's own
// loops come first; what only one instance does it does under a lease.
func (a *App) loops() []loop {
	g, roles := a.ground, a.ground.cfg.Roles
	all := append(g.shared.loops(), g.member.Run, g.kept.Run, a.timers.engine.Run, a.ways.recorder.Run, a.settings.Run, a.mover.rows.Run, g.watchDataDisk)
	if roles.API {
		all = append(all, a.auth.Run, a.sessions.Run, a.access.Run, a.activity.Run, a.downloads.Run)
	}
	if roles.Scheduler {
		all = append(all, a.courier.relay...)
	}
	if roles.Worker {
		all = append(all, a.unlinker.Run, under(g.member, leaseAudit, a.auditor.Run), a.auditor.RunSuspicions, under(g.member, leaseSample, a.sampler.run), under(g.member, leaseCopies, a.house.keepCopies), under(g.member, leaseHooks, a.webhooks.Run))
		all = append(all, a.courier.work...)
		if post := a.notices.postman; post != nil {
			all = append(all, under(g.member, leaseMail, post.Run))
		}
	}
	if roles.Export {
		all = append(all, a.exports.Run)
	}
	if roles.Ingest {
		all = append(all, a.intake.Run, a.courier.bundles, under(g.member, leaseCompare, a.intake.RunReconciler), under(g.member, leaseGather, a.intake.RunGatherer))
	}
	if roles.Scheduler || roles.Worker {
		all = append(all, a.timers.recoverUntilDone, a.links().sealUntilDone)
	}
	return all
}

func ignoreStop(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
