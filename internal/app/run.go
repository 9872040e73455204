package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/head/rest"
	"smartdrive/internal/head/resumable"
	"smartdrive/internal/head/server"
	"smartdrive/internal/head/tus"
	"smartdrive/internal/head/webui"
)

// Run serves until ctx is done and then stops: first the heads, so that no request is cut, then the engines. ready is called
// with the URL once requests are answered.
func (a *App) Run(ctx context.Context, version string, reload <-chan struct{}, ready func(url string)) error {
	gate := server.NewGate[drive.UserID](a.cfg.UserRequests)
	api := a.api(version, gate)
	mux := http.NewServeMux()
	var pages http.Handler
	if a.cfg.Roles.API {
		if a.cfg.ResumableDraft {
			draft := a.draftHead(api)
			draft.Register(mux)
			api.Resumable = draft
		}
		api.Register(mux)
		a.tus(api).Register(mux)
		ui, err := a.pages(ctx)
		if err != nil {
			return err
		}
		ui.Register(mux)
		pages = ui
	}
	srv := a.server(server.Options{Routes: mux, Pages: pages, Slashed: []string{tus.Prefix}, Admin: api.IsAdmin, OnReady: ready})
	if err := srv.Listen(ctx); err != nil {
		return err
	}
	control, err := a.listenControl(ctx, api)
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
	heads.Go(func() error { return a.reloadOn(headCtx, srv, reload) })
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

// loops are what runs behind the heads, by the roles of this instance. A shared component's own loops come first; what only one
// instance does it does under a lease.
func (a *App) loops() []loop {
	roles := a.cfg.Roles
	all := append(a.shared.loops(), a.member.Run, a.kept.Run, a.engine.Run, a.mover.rows.Run)
	if roles.API {
		all = append(all, a.auth.Run)
	}
	if roles.Scheduler {
		all = append(all, a.records.relay...)
	}
	if roles.Worker {
		all = append(all, a.unlinker.Run, a.one(leaseAudit, a.auditor.Run), a.one(leaseSample, a.sample))
		all = append(all, a.records.work...)
	}
	if roles.Export {
		all = append(all, a.exports.Run)
	}
	if roles.Ingest {
		all = append(all, a.intake.Run, a.records.bundles, a.one(leaseCompare, a.intake.RunReconciler))
	}
	if roles.Scheduler || roles.Worker {
		all = append(all, a.recoverUntilDone, a.sealUntilDone)
	}
	return all
}

func ignoreStop(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (a *App) api(version string, gate *server.Gate[drive.UserID]) *rest.API {
	base := ""
	if a.cfg.BaseURL != nil {
		base = a.cfg.BaseURL.String()
	}
	return rest.New(rest.Options{
		DB: a.db, Uploads: a.uploads, Files: a.files, Thumbs: a.thumbs, Shares: a.shares, Collects: a.collects,
		Exports: a.exports, Intake: a.intake,
		AccountParts: rest.AccountParts{Auth: a.auth, Users: a.users, Sessions: a.sessions},
		LimitParts: rest.LimitParts{
			Clicks: idem.NewDoubleClick(idem.Options{}), Gate: gate, Visitors: server.NewGate[netip.Prefix](a.cfg.AddressRequests),
		},
		KeyParts: rest.KeyParts{Keys: a.keys, Prepared: a.prepared},
		AdminParts: rest.AdminParts{
			Admin: a.admin, DeadLetters: a.outbox, Timers: a.engine, Findings: a.findings, Status: a.status, Migration: moveSteps{a.mover, a.users},
		},
		BaseURL: base, DownloadRedirect: a.cfg.DownloadRedirect, Version: version,
	})
}

// server adds to what it serves how it does.
// tus is the head of the tus protocol; who may upload is the API's to say.
func (a *App) tus(api *rest.API) *tus.Head {
	caller := func(r *http.Request) (tus.Caller, func(), error) {
		who, sender, release, err := api.Uploader(r)
		if sender == nil {
			return tus.Caller{Who: who}, release, err
		}
		return tus.Caller{Who: who, Sender: sender}, release, err
	}
	return tus.New(tus.Options{Uploads: a.uploads, Caller: caller, Content: rest.ContentPath, BaseURL: api.BaseURL()})
}

// draftHead is the head of the IETF's draft. What a PUT means, and what is answered, is the API's
// to say.
func (a *App) draftHead(api *rest.API) *resumable.Head {
	return resumable.New(resumable.Options{
		Uploads: a.uploads, Writer: api.Writer, ReadPut: api.ReadPut, AnswerPut: api.AnswerPut, BaseURL: api.BaseURL(),
	})
}

func (a *App) server(opt server.Options) *server.Server {
	cfg := a.cfg
	opt.Listen, opt.TLSCert, opt.TLSKey, opt.SubPath = cfg.Listen, cfg.TLSCert, cfg.TLSKey, cfg.SubPath()
	opt.TrustedProxies, opt.CORSOrigins = cfg.TrustedProxies, cfg.CORSOrigins
	opt.Metrics, opt.Log, opt.Checks = a.metrics, a.log, a.checks()
	return server.New(opt)
}

// pages are the web pages, with a count of what browsers had to keep them from doing.
func (a *App) pages(ctx context.Context) (*webui.UI, error) {
	blocked := a.metrics.Counter("csp_reports_total", "Reports of browsers that the policy of the pages blocked something.", "directive")
	for _, directive := range webui.Directives() {
		blocked(0, directive) // what is absent at first has no increase when it comes
	}
	store, err := a.storeOrigin(ctx)
	if err != nil {
		return nil, err
	}
	ui, err := webui.New(webui.Options{SubPath: a.cfg.SubPath(), Store: store, Blocked: func(directive string) { blocked(1, directive) }})
	if err != nil {
		return nil, fmt.Errorf("read the web pages: %w", err)
	}
	return ui, nil
}

// storeOrigin is where browsers are sent for contents: that of the addresses that the store makes, which need not be the configured
// one (a bucket may have a host of its own). Empty: they are sent nowhere.
func (a *App) storeOrigin(ctx context.Context) (string, error) {
	store := a.bytes.store
	if a.cfg.DownloadRedirect <= 0 || !store.Caps().Links {
		return "", nil
	}
	address, err := store.Presign(ctx, drive.NewID[drive.UploadID]().String(), blob.Link{Valid: time.Minute})
	if err != nil {
		return "", fmt.Errorf("learn the origin of the store: %w", err)
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("learn the origin of the store: %w", err)
	}
	return u.Scheme + "://" + u.Host, nil
}

func (a *App) reloadOn(ctx context.Context, srv *server.Server, reload <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			if err := srv.Reload(); err != nil {
				a.log.Error("the new certificate was not taken; the old one stays", "error", err)
			}
		}
	}
}

// recoverUntilDone arms again what only memory knew, in the background: readiness does not wait for it.
func (a *App) recoverUntilDone(ctx context.Context) error {
	err := retry(ctx, a.log, "recover", a.mode.arm)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

func (a *App) socket() string { return filepath.Join(a.cfg.Data, socketFile) }
