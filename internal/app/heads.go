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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/head/dav"
	"smartdrive/internal/head/nextcloud"
	"smartdrive/internal/head/probe"
	"smartdrive/internal/head/rest"
	"smartdrive/internal/head/resumable"
	"smartdrive/internal/head/server"
	"smartdrive/internal/head/tus"
	"smartdrive/internal/head/webui"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/upload"
)

// api is the native head.
func (a *App) api(version string, gate *server.Gate[drive.UserID]) *rest.API {
	cfg, base := a.ground.cfg, ""
	if cfg.BaseURL != nil {
		base = cfg.BaseURL.String()
	}
	return rest.New(rest.Options{
		DB: a.ground.db, Uploads: a.uploads, Files: a.files, Links: files.NewLinks(a.files, files.LinkOptions{Epochs: a.users, Secret: a.vault.Links}),
		Shelf: files.NewShelf(a.files, a.stars), Spaces: a.spaces, History: a.history, Downloads: a.downloads, Webhooks: a.webhooks, Notices: a.notices.inbox, Bulk: a.bulk, Batches: a.batches, Thumbs: a.thumbs, Shares: a.shares, Collects: a.collects,
		Exports: a.exports, Intake: a.intake,
		AccountParts: rest.AccountParts{Auth: a.auth, Users: a.users, Sessions: a.sessions, SignOn: a.signOn},
		LimitParts: rest.LimitParts{
			Clicks: idem.NewDoubleClick(idem.Options{}), Intervals: idem.NewIntervals(cfg.CreationIntervals, idem.Options{}), Gate: gate, Visitors: server.NewGate[netip.Prefix](cfg.AddressRequests),
			Writes: server.NewDaily[drive.UserID](server.WritesADay, time.Now),
		},
		KeyParts: rest.KeyParts{Keys: a.keys, Prepared: a.prepared, Conflicts: a.keyConflicts},
		AdminParts: rest.AdminParts{
			Admin: a.admin, Handovers: a.handovers, DeadLetters: a.outbox, Timers: a.timers.engine, Steps: a.ways.stepsOf, Findings: a.ground.findings,
			Status: overview{a.ground, a.timers.engine, a.courier.records}.status, Growth: a.growth, Mail: a.notices.check, Settings: a.settings, Migration: moveSteps{a.mover, a.users},
		},
		BaseURL: base, DownloadRedirect: cfg.DownloadRedirect, Version: version,
	})
}

// server serves the heads that this instance has; without the role there are only its figures and
// whether it is ready.
func (a *App) server(ctx context.Context, api *rest.API, ready func(url string)) (*server.Server, error) {
	cfg, mux := a.ground.cfg, http.NewServeMux()
	opt := server.Options{
		Listen: cfg.Listen, TLSCert: cfg.TLSCert, TLSKey: cfg.TLSKey, SubPath: cfg.SubPath(),
		TrustedProxies: cfg.TrustedProxies, CORSOrigins: cfg.CORSOrigins,
		Routes: mux, Slashed: []string{tus.Prefix}, Loose: []string{dav.Prefix}, Admin: api.IsAdmin, OnReady: ready, OnStop: api.EndStreams,
		Metrics: a.metrics, Log: a.ground.log, Checks: append(a.ground.checks(), a.damageCheck()...), TranslateError: a.translateError,
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
		_, release, err := api.Basic(r, drive.HeadNative, false)
		return release, err
	}, Disk: a.ground.room}).Register(mux)
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

// tusHead is the head of the tus protocol; who may upload is the API's to say.
func tusHead(uploads *upload.Sessions, api *rest.API) *tus.Head {
	caller := func(r *http.Request) (tus.Caller, func(), error) {
		who, sender, release, err := api.Uploader(r)
		if who.Head = "tus"; sender == nil {
			return tus.Caller{Who: who}, release, err
		}
		return tus.Caller{Who: who, Sender: sender}, release, err
	}
	return tus.New(tus.Options{Uploads: uploads, Caller: caller, Content: rest.ContentPath, BaseURL: api.BaseURL()})
}

// callerAt says who sends a request to a head whose clients send a name and a password.
func callerAt(api *rest.API, head drive.Heads) func(r *http.Request, changes bool) (drive.Who, func(), error) {
	return func(r *http.Request, changes bool) (drive.Who, func(), error) { return api.Basic(r, head, changes) }
}

// davHead is the head of WebDAV; who may do what is the API's to say.
func (a *App) davHead(api *rest.API) *dav.Head {
	return dav.New(dav.Options{
		Files: a.files, Uploads: a.uploads, Spaces: a.spaces, Caller: callerAt(api, drive.HeadDAV), Litter: func() dav.Litter { return dav.Litter(a.ground.live.Now().DAVLitter) },
		BaseURL: api.BaseURL(), Balance: a.balance,
	})
}

// nextcloudHead is the head of the Nextcloud client protocol, whose files are those of WebDAV.
func (a *App) nextcloudHead(api *rest.API, davs *dav.Head) *nextcloud.Head {
	instance := strings.ReplaceAll(a.ground.ID, "-", "")
	return nextcloud.New(nextcloud.Options{
		DAV: davs, Files: a.files, Uploads: a.uploads, Batches: a.batches, Thumbs: a.thumbs, Sessions: a.sessions, Shelf: files.NewShelf(a.files, a.stars),
		Spaces: a.spaces, Shares: a.shares, Numbers: a.shareNumbers,
		Caller: callerAt(api, drive.HeadNextcloud), Visitor: api.Visitor, BaseURL: api.BaseURL(), Instance: "sd" + instance[:min(10, len(instance))],
		Fingerprint: a.ground.Fingerprint,
		Name: func(ctx context.Context, id drive.UserID) (string, error) {
			user, err := a.users.Find(ctx, a.ground.db, id)
			return user.Name, err
		},
		Balance: a.balance,
	})
}

func (a *App) balance(ctx context.Context, account drive.AccountID) (quota.Balance, error) {
	return quota.Ledger{}.Get(ctx, a.ground.db.For(account), account)
}

// draftHead is the head of the IETF's draft. What a PUT means, and what is answered, is the API's
// to say.
func draftHead(uploads *upload.Sessions, api *rest.API) *resumable.Head {
	writer := func(r *http.Request) (drive.Who, func(), error) {
		who, release, err := api.Writer(r)
		who.Head = "draft"
		return who, release, err
	}
	return resumable.New(resumable.Options{
		Uploads: uploads, Writer: writer, ReadPut: api.ReadPut, AnswerPut: api.AnswerPut, BaseURL: api.BaseURL(),
	})
}

// pages are the web pages, with a count of what browsers had to keep them from doing.
func (a *App) pages(ctx context.Context) (*webui.UI, error) {
	blocked := a.metrics.Counter("csp_reports_total", "Reports of browsers that the policy of the pages blocked something.", "directive")
	for _, directive := range webui.Directives() {
		blocked(0, directive) // what is absent at first has no increase when it comes
	}
	store, err := a.ground.storeOrigin(ctx)
	if err != nil {
		return nil, err
	}
	ui, err := webui.New(webui.Options{SubPath: a.ground.cfg.SubPath(), Store: store, Blocked: func(directive string) { blocked(1, directive) }})
	if err != nil {
		return nil, fmt.Errorf("read the web pages: %w", err)
	}
	return ui, nil
}

// storeOrigin is where browsers are sent for contents: that of the addresses that the store makes,
// which need not be the configured one (a bucket may have a host of its own). Empty: they are sent
// nowhere.
func (g *ground) storeOrigin(ctx context.Context) (string, error) {
	store := g.bytes.store
	if g.cfg.DownloadRedirect <= 0 || !store.Caps().Links {
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

func reloadOn(ctx context.Context, log *slog.Logger, srv *server.Server, reload <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			if err := srv.Reload(); err != nil {
				log.Error("the new certificate was not taken; the old one stays", "error", err)
			}
		}
	}
}
