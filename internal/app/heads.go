package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/head/nextcloud"
	"example.org/smartdrive/internal/head/probe"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/head/resumable"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/head/tus"
	"example.org/smartdrive/internal/head/webui"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
)

// api constructs the native head. gate limits the requests in flight per user and is shared with
// the other heads.
func (a *App) api(version string, gate *server.Limiter[drive.UserID]) *rest.API {
	cfg, base := a.platform.cfg, ""
	if cfg.BaseURL != nil {
		base = cfg.BaseURL.String()
	}
	return rest.New(rest.Options{
		DB: a.platform.db, Uploads: a.uploads, Files: a.files, Links: files.NewLinks(a.files, files.LinkOptions{Epochs: a.users, Secret: a.vault.LinkSecret}),
		Shelf: files.NewQuickAccess(a.files, a.stars), Spaces: a.spaces, History: a.history, Downloads: a.downloads, Webhooks: a.webhooks, Notices: a.notices.inbox, Bulk: a.bulk, Batches: a.batches, Thumbs: a.thumbs, Shares: a.shares, Collects: a.collects,
		Exports: a.exports, Intake: a.intake,
		AccountParts: rest.AccountParts{Auth: a.auth, Users: a.users, Sessions: a.sessions, SignOn: a.signOn},
		LimitParts: rest.LimitParts{
			DoubleClicks: idem.NewClickLimiter(idem.Options{}), Intervals: idem.NewIntervalLimiter(cfg.CreationIntervals, idem.Options{}), Requests: gate, Visitors: server.NewLimiter[netip.Prefix](cfg.AddressRequests),
			Writes: server.NewDailyLimiter[drive.UserID](server.MaxDailyWrites, time.Now),
		},
		KeyParts: rest.KeyParts{Keys: a.keys, Prepared: a.prepared, Conflicts: a.keyConflicts},
		AdminParts: rest.AdminParts{
			Admin: a.admin, Handovers: a.handovers, DeadLetters: a.outbox, Timers: a.timers.engine, TimerSteps: a.traces.stepsOf, Findings: a.platform.findings,
			Status: overview{a.platform, a.timers.engine, a.transport.recordFlow}.status, Growth: a.growth, Mail: a.notices.check, Settings: a.settings, Migration: moveSteps{a.mover, a.users},
		},
		BaseURL: base, DownloadRedirect: cfg.DownloadRedirect, Version: version,
	})
}

// server constructs the HTTP server with the heads of this instance. Without the role API it serves
// only metrics and readiness.
func (a *App) server(ctx context.Context, api *rest.API, ready func(url string)) (*server.Server, error) {
	cfg, mux := a.platform.cfg, http.NewServeMux()
	opt := server.Options{
		Listen: cfg.Listen, TLSCert: cfg.TLSCert, TLSKey: cfg.TLSKey, SubPath: cfg.SubPath(),
		TrustedProxies: cfg.TrustedProxies, CORSOrigins: cfg.CORSOrigins,
		Routes: mux, Slashed: []string{tus.Prefix}, Loose: []string{dav.Prefix}, Admin: api.IsAdmin, OnReady: ready, OnStop: api.EndStreams,
		Metrics: a.metrics, Log: a.platform.log, Checks: append(a.platform.checks(), a.damageCheck()...), TranslateError: a.translateError,
	}
	if !cfg.Roles.API {
		return server.New(opt), nil
	}
	if cfg.ResumableDraft {
		draft := draftHead(a.uploads, api)
		draft.Register(mux)
		api.Resumable = draft
	}
	api.Register(mux)
	tusHead(a.uploads, api).Register(mux)
	probe.New(probe.Options{Caller: func(r *http.Request) (func(), error) {
		_, release, err := api.AuthenticateBasic(r, drive.HeadNative, false)
		return release, err
	}, Disk: a.platform.diskState}).Register(mux)
	davs := a.davHead(api)
	if cfg.DAV {
		davs.Register(mux)
	}
	if cfg.Nextcloud {
		opt.Loose = append(opt.Loose, nextcloud.Prefixes()...)
		a.nextcloudHead(api, davs).Register(mux)
	}
	ui, err := a.pages(ctx)
	if err != nil {
		return nil, err
	}
	ui.Register(mux)
	opt.Pages = ui
	return server.New(opt), nil
}

// tusHead constructs the head of the tus protocol. The API authenticates its requests.
func tusHead(uploads *upload.Sessions, api *rest.API) *tus.Head {
	caller := func(r *http.Request) (tus.Caller, func(), error) {
		who, sender, release, err := api.AuthenticateUploader(r)
		if who.Head = "tus"; sender == nil {
			return tus.Caller{Who: who}, release, err
		}
		return tus.Caller{Who: who, Sender: sender}, release, err
	}
	return tus.New(tus.Options{Uploads: uploads, Authenticate: caller, Content: rest.ContentURLPath, BaseURL: api.BaseURL()})
}

// callerAt returns the function that authenticates requests by user name and password for a head.
func callerAt(api *rest.API, head drive.Heads) func(r *http.Request, changes bool) (drive.Who, func(), error) {
	return func(r *http.Request, changes bool) (drive.Who, func(), error) {
		return api.AuthenticateBasic(r, head, changes)
	}
}

// davHead constructs the WebDAV head. The API authenticates its requests.
func (a *App) davHead(api *rest.API) *dav.Head {
	return dav.New(dav.Options{
		Files: a.files, Uploads: a.uploads, Spaces: a.spaces, Caller: callerAt(api, drive.HeadDAV), Litter: func() dav.Litter { return dav.Litter(a.platform.live.Now().DAVLitter) },
		BaseURL: api.BaseURL(), Balance: a.balance,
	})
}

// nextcloudHead constructs the head of the Nextcloud protocol, on top of the WebDAV head.
func (a *App) nextcloudHead(api *rest.API, davs *dav.Head) *nextcloud.Head {
	instance := strings.ReplaceAll(a.platform.ID, "-", "")
	return nextcloud.New(nextcloud.Options{
		DAV: davs, Files: a.files, Uploads: a.uploads, Batches: a.batches, Thumbs: a.thumbs, Sessions: a.sessions, Shelf: files.NewQuickAccess(a.files, a.stars),
		Spaces: a.spaces, Shares: a.shares, Numbers: a.shareNumbers,
		Caller: callerAt(api, drive.HeadNextcloud), Visitor: api.AdmitVisitor, BaseURL: api.BaseURL(), Instance: "sd" + instance[:min(10, len(instance))],
		Fingerprint: a.platform.Fingerprint,
		Name: func(ctx context.Context, id drive.UserID) (string, error) {
			user, err := a.users.Find(ctx, a.platform.db, id)
			return user.Name, err
		},
		Balance: a.balance,
	})
}

// balance returns the ledger balance of an account, or the error of the database.
func (a *App) balance(ctx context.Context, account drive.AccountID) (quota.Balance, error) {
	return quota.Ledger{}.Get(ctx, a.platform.db.For(account), account)
}

// draftHead constructs the head of the IETF draft of resumable uploads. The API parses and answers
// its PUTs.
func draftHead(uploads *upload.Sessions, api *rest.API) *resumable.Head {
	writer := func(r *http.Request) (drive.Who, func(), error) {
		who, release, err := api.AuthenticateWriter(r)
		who.Head = "draft"
		return who, release, err
	}
	return resumable.New(resumable.Options{
		Uploads: uploads, Authenticate: writer, ReadPut: api.ReadPut, AnswerPut: api.AnswerPut, BaseURL: api.BaseURL(),
	})
}

// pages constructs the web pages, and counts reports of their content security policy. It fails if
// the files cannot be read or the store cannot be asked.
func (a *App) pages(ctx context.Context) (*webui.UI, error) {
	blocked := a.metrics.Counter("csp_reports_total", "Content-Security-Policy violation reports from browsers.", "directive")
	for _, directive := range webui.Directives() {
		blocked(0, directive) // a counter that first appears above 0 shows no increase
	}
	store, err := a.platform.storeOrigin(ctx)
	if err != nil {
		return nil, err
	}
	ui, err := webui.New(webui.Options{SubPath: a.platform.cfg.SubPath(), Store: store, Blocked: func(directive string) { blocked(1, directive) }})
	if err != nil {
		return nil, fmt.Errorf("read the web pages: %w", err)
	}
	return ui, nil
}

// storeOrigin returns the origin of store URLs that browsers are redirected to; "" without
// redirects. It may differ from the configured endpoint, since a bucket may have a host name of its
// own. It fails if the store cannot sign a URL.
func (p *platform) storeOrigin(ctx context.Context) (string, error) {
	store := p.storage.store
	if p.cfg.DownloadRedirect <= 0 || !store.Caps().Presigns {
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

// reloadOn reloads the TLS certificate at every signal until ctx ends, and then returns nil. A
// failed reload is logged and the old certificate stays.
func reloadOn(ctx context.Context, log *slog.Logger, srv *server.Server, reload <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			if err := srv.Reload(); err != nil {
				log.Error("the new TLS certificate could not be loaded; the old one stays in use", "error", err)
			}
		}
	}
}
