package rest

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/growth"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/intake/ingest"
	"example.org/smartdrive/internal/usecase/admin"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/bulk"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/handover"
	"example.org/smartdrive/internal/usecase/history"
	"example.org/smartdrive/internal/usecase/notify"
	"example.org/smartdrive/internal/usecase/setting"
	"example.org/smartdrive/internal/usecase/share"
	"example.org/smartdrive/internal/usecase/signon"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/thumb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/webhook"
)

// Options are the dependencies and settings of the API. Those without a documented default are
// required.
type Options struct {
	DB *sqldb.DB // for reads outside of use cases: /me, stored responses

	Uploads *upload.Sessions
	Files   *files.Files
	Links   *files.Links
	Shelf   *files.QuickAccess
	Spaces  *space.Spaces
	History *history.History
	// Downloads records downloads of zips. Nil: they are not recorded.
	Downloads *history.Downloads
	Webhooks  *webhook.Webhooks
	Notices   *notify.Inbox
	Bulk      *bulk.Bulk
	Batches   *batch.Batches
	Thumbs    *thumb.Maker // default: a maker without a cache
	Shares    *share.Shares
	Collects  *collect.Links
	Exports   *export.Exports
	Intake    *ingest.Intake

	AccountParts
	LimitParts
	KeyParts
	AdminParts

	// BaseURL is the URL of the server as clients reach it, with its sub-path and without a final
	// slash. Default: derived from each request.
	BaseURL string
	// DownloadRedirect is the lifetime of store addresses that downloads are redirected to.
	// Default: the API sends the content itself.
	DownloadRedirect time.Duration

	Version string           // version of the program in the OpenAPI document; default "dev"
	Now     func() time.Time // default time.Now
}

// AccountParts are the dependencies that authenticate users and serve the routes for their
// accounts.
type AccountParts struct {
	Auth     *account.Auth
	Users    *account.Users
	Sessions *account.Sessions
	Ledger   quota.Ledger
	SignOn   *signon.SignOn // login by an identity provider; nil: not configured
}

// LimitParts limit the requests of a client.
type LimitParts struct {
	DoubleClicks *idem.ClickLimiter
	// Intervals are the minimum times between two creations of a user, by method and path of the
	// route, such as "POST /exports". Default: none.
	Intervals *idem.IntervalLimiter
	Requests  Limiter[drive.UserID] // default: no limit
	Visitors  Limiter[netip.Prefix] // requests without a login in flight, by address; default: no limit

	Writes *server.DailyLimiter[drive.UserID] // writing requests per day; default: no limit
}

// KeyParts store the responses of creations under their Idempotency-Key.
type KeyParts struct {
	Keys      *idem.Keys
	Prepared  *idem.PreparedIDs
	Conflicts *idem.Conflicts // default: refused creations are not recorded
}

// AdminParts serve the administrators' routes.
type AdminParts struct {
	Admin       *admin.Admin
	Handovers   *handover.Handovers
	DeadLetters stream.DeadLetters
	Timers      *timer.Engine
	// TimerSteps returns the recorded steps of a timer. Default: none.
	TimerSteps func(ctx context.Context, key timer.Key) ([]TimerStep, error)
	Findings   Findings // default: there are none
	// Status returns the state of the installation. Default: the zero Status.
	Status func(ctx context.Context) (Status, error)
	Growth *growth.Growth
	// Mail probes the mail server. Default: no mail server.
	Mail      func(ctx context.Context) (MailReport, error)
	Settings  *setting.Settings
	Migration Mover // default: the installation cannot migrate
}

// Limiter limits the requests of a client in flight, as server.Limiter does. Acquire fails with
// drive.Rate. Otherwise the caller calls release after the request.
type Limiter[K comparable] interface {
	Acquire(client K) (release func(), err error)
}

// Findings returns a page of the audits' findings, the newest first, and the cursor of the next
// page ("" on the last). It fails with CursorInvalid for an unknown cursor.
type Findings func(ctx context.Context, cursor string, limit int) (items []Finding, next string, err error)

// API serves the requests. It is safe for concurrent use.
type API struct {
	Resumable Resumable // handles resumable PUTs of files; nil: none are resumable; set before Register

	front     front
	uploads   uploads // shared with the other heads
	routes    []route
	documents func() (v31, v30 []byte) // the routes as OpenAPI, rendered at the first call
}

// front holds what requests need before and after their handler: authentication, limits, stored
// responses, memory.
type front struct {
	LimitParts
	KeyParts
	db          *sqldb.DB // for stored responses
	auth        *account.Auth
	logins      *account.Sessions
	senders     *collect.Links
	local       *drive.Who // if set, the caller of every request
	base        string     // Options.BaseURL
	forgery     *http.CrossOriginProtection
	memory      *memory
	compressors compressors
	closing     *closing

	downloads *history.Downloads
}

// New returns an API with the zero fields of opt replaced by defaults. It does no I/O. The caller
// must mount its routes.
func New(opt Options) *API {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Thumbs == nil {
		opt.Thumbs = thumb.New(thumb.Options{})
	}
	if opt.Requests == nil {
		opt.Requests = noGate[drive.UserID]{}
	}
	if opt.Visitors == nil {
		opt.Visitors = noGate[netip.Prefix]{}
	}
	if opt.Findings == nil {
		opt.Findings = func(context.Context, string, int) ([]Finding, string, error) { return nil, "", nil }
	}
	if opt.TimerSteps == nil {
		opt.TimerSteps = func(context.Context, timer.Key) ([]TimerStep, error) { return []TimerStep{}, nil }
	}
	if opt.Migration == nil {
		opt.Migration = noMover{}
	}
	if opt.Status == nil {
		opt.Status = func(context.Context) (Status, error) { return Status{}, nil }
	}
	opt.Version = cmp.Or(opt.Version, "dev")
	opt.BaseURL = strings.TrimSuffix(opt.BaseURL, "/")
	a := &API{
		front: front{
			LimitParts: opt.LimitParts, KeyParts: opt.KeyParts, db: opt.DB, auth: opt.Auth, logins: opt.Sessions, senders: opt.Collects,
			base: opt.BaseURL, forgery: newForgery(opt.BaseURL), memory: newMemory(memoryLimit()), compressors: newCompressors(), closing: &closing{done: make(chan struct{})}, downloads: opt.Downloads,
		},
		uploads: uploads{opt.Uploads, opt.Files, opt.DB, opt.Collects},
	}
	a.routes = table(opt, a.uploads)
	a.documents = sync.OnceValues(func() (v31, v30 []byte) { return openAPI(a.routes, opt.BaseURL, opt.Version) })
	return a
}

// HasIntervals reports whether Intervals apply to an operation such as "POST /exports". They apply
// to routes that take an Idempotency-Key, except the creation of users and batches.
func (a *API) HasIntervals(operation string) bool {
	return operation != "POST /admin/users" && operation != "POST "+batchPath &&
		slices.ContainsFunc(a.routes, func(r route) bool { return r.idempotent && r.method+" "+r.path == operation })
}

// noGate is a Limiter that admits every request.
type noGate[K comparable] struct{}

// Acquire always succeeds; the release function does nothing.
func (noGate[K]) Acquire(K) (func(), error) { return func() {}, nil }

// BaseURL returns Options.BaseURL; "" if the server's address is that of each request.
func (a *API) BaseURL() string { return a.front.base }

// Register adds the API's routes and the OpenAPI documents to mux. Call it once.
func (a *API) Register(mux *http.ServeMux) {
	for i := range a.routes {
		rt := &a.routes[i]
		mux.Handle(rt.pattern(), a.resumable(rt, a.handler(rt)))
	}
	mux.HandleFunc("GET /api/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		v31, _ := a.documents()
		serveDocument(w, v31, "3.1")
	})
	mux.HandleFunc("GET /api/openapi-3.0.json", func(w http.ResponseWriter, _ *http.Request) {
		_, v30 := a.documents()
		serveDocument(w, v30, "3.0")
	})
}

// Handler returns a handler that serves only the API.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	a.Register(mux)
	return mux
}
