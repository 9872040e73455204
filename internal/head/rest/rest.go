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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/growth"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/export"
	"smartdrive/internal/head/server"
	"smartdrive/internal/intake/ingest"
	"smartdrive/internal/usecase/admin"
	"smartdrive/internal/usecase/batch"
	"smartdrive/internal/usecase/bulk"
	"smartdrive/internal/usecase/collect"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/handover"
	"smartdrive/internal/usecase/history"
	"smartdrive/internal/usecase/notify"
	"smartdrive/internal/usecase/setting"
	"smartdrive/internal/usecase/share"
	"smartdrive/internal/usecase/signon"
	"smartdrive/internal/usecase/space"
	"smartdrive/internal/usecase/thumb"
	"smartdrive/internal/usecase/upload"
	"smartdrive/internal/usecase/webhook"
)

// Options are what the API stands on. All but those with a default are required.
type Options struct {
	DB *sqldb.DB // read outside of use cases only: /me, stored responses

	Uploads *upload.Sessions
	Files   *files.Files
	Links   *files.Links
	Shelf   *files.Shelf
	Spaces  *space.Spaces
	History *history.History
	// Downloads are told of zips. Nil: nobody is.
	Downloads *history.Downloads
	Webhooks  *webhook.Webhooks
	Notices   *notify.Inbox
	Bulk      *bulk.Bulk
	Batches   *batch.Batches
	Thumbs    *thumb.Maker // default: one that keeps nothing
	Shares    *share.Shares
	Collects  *collect.Links
	Exports   *export.Exports
	Intake    *ingest.Intake

	AccountParts
	LimitParts
	KeyParts
	AdminParts

	// BaseURL is how the server is reached from outside, with its sub-path and without a final
	// slash. Default: as the request came in.
	BaseURL string
	// DownloadRedirect is how long the addresses of the store are good that downloads are sent on
	// to. Default: the API sends the content itself.
	DownloadRedirect time.Duration

	Version string           // of the program, for the OpenAPI document; default "dev"
	Now     func() time.Time // default time.Now
}

// AccountParts say who somebody is.
type AccountParts struct {
	Auth     *account.Auth
	Users    *account.Users
	Sessions *account.Sessions
	Ledger   quota.Ledger
	SignOn   *signon.SignOn // by an identity provider; nil: there is none
}

// LimitParts bound how much a client may ask for at a time.
type LimitParts struct {
	Clicks *idem.DoubleClick
	// Intervals are between two creations of a user, by method and path of the route, such as
	// "POST /exports". Default: there are none.
	Intervals *idem.Intervals
	Gate      Gate[drive.UserID] // default: no limit
	Visitors  Gate[netip.Prefix] // for those who have not logged in, by address; default: no limit

	Writes *server.Daily[drive.UserID] // requests that write; default: no limit
}

// KeyParts keep the answers of creations under the Idempotency-Key of their request.
type KeyParts struct {
	Keys      *idem.Keys
	Prepared  *idem.PreparedIDs
	Conflicts *idem.Conflicts // default: refused creations are not recorded
}

// AdminParts are for administrators.
type AdminParts struct {
	Admin       *admin.Admin
	Handovers   *handover.Handovers
	DeadLetters stream.DeadLetters
	Timers      *timer.Engine
	// Steps is the way of a timer that has fired. Default: nothing is known.
	Steps    func(ctx context.Context, key timer.Key) ([]TimerStep, error)
	Findings Findings // default: there are none
	// Status says how the installation is doing. Default: nothing is known.
	Status func(ctx context.Context) (Status, error)
	Growth *growth.Growth
	// Mail asks the server that sends mail whether it would take one. Default: there is none.
	Mail      func(ctx context.Context) (MailReport, error)
	Settings  *setting.Settings
	Migration Mover // default: the installation cannot move
}

// Gate limits how many requests of a client are in flight; it is server.Gate. The error is Rate.
type Gate[K comparable] interface {
	Acquire(client K) (release func(), err error)
}

// Findings returns a page of what audits found, the newest first, and the cursor of the next page
// ("" on the last). A cursor that it did not make is CursorInvalid.
type Findings func(ctx context.Context, cursor string, limit int) (items []Finding, next string, err error)

// API answers the requests. It is safe for concurrent use.
type API struct {
	Resumable Resumable // nil: no PUT can be resumed; set before Register

	front     front
	uploads   uploads // for the other heads, too
	routes    []route
	documents func() (v31, v30 []byte) // the routes as OpenAPI, made when first asked for
}

// front is what each request needs before its handler runs and after it.
type front struct {
	LimitParts
	KeyParts
	db      *sqldb.DB // of stored responses
	auth    *account.Auth
	logins  *account.Sessions
	senders *collect.Links
	local   *drive.Who // set: every request is this caller's
	base    string     // Options.BaseURL
	forgery *http.CrossOriginProtection
	memory  *memory
	packers packers
	closing *closing

	downloads *history.Downloads
}

// New puts the API together. It does no I/O.
func New(opt Options) *API {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Thumbs == nil {
		opt.Thumbs = thumb.New(thumb.Options{})
	}
	if opt.Gate == nil {
		opt.Gate = noGate[drive.UserID]{}
	}
	if opt.Visitors == nil {
		opt.Visitors = noGate[netip.Prefix]{}
	}
	if opt.Findings == nil {
		opt.Findings = func(context.Context, string, int) ([]Finding, string, error) { return nil, "", nil }
	}
	if opt.Steps == nil {
		opt.Steps = func(context.Context, timer.Key) ([]TimerStep, error) { return []TimerStep{}, nil }
	}
	if opt.Migration == nil {
		opt.Migration = rooted{}
	}
	if opt.Status == nil {
		opt.Status = func(context.Context) (Status, error) { return Status{}, nil }
	}
	opt.Version = cmp.Or(opt.Version, "dev")
	opt.BaseURL = strings.TrimSuffix(opt.BaseURL, "/")
	a := &API{
		front: front{
			LimitParts: opt.LimitParts, KeyParts: opt.KeyParts, db: opt.DB, auth: opt.Auth, logins: opt.Sessions, senders: opt.Collects,
			base: opt.BaseURL, forgery: newForgery(opt.BaseURL), memory: newMemory(memoryLimit()), packers: newPackers(), closing: &closing{done: make(chan struct{})}, downloads: opt.Downloads,
		},
		uploads: uploads{opt.Uploads, opt.Files, opt.DB, opt.Collects},
	}
	a.routes = table(opt, a.uploads)
	a.documents = sync.OnceValues(func() (v31, v30 []byte) { return openAPI(a.routes, opt.Version) })
	return a
}

// HasIntervals reports whether operation, such as "POST /exports", heeds Intervals: the routes that
// take an Idempotency-Key do, except those that create users and run batches.
func (a *API) HasIntervals(operation string) bool {
	return operation != "POST /admin/users" && operation != "POST "+batchPath &&
		slices.ContainsFunc(a.routes, func(r route) bool { return r.once && r.method+" "+r.path == operation })
}

type noGate[K comparable] struct{}

func (noGate[K]) Acquire(K) (func(), error) { return func() {}, nil }

// BaseURL is that of the options.
func (a *API) BaseURL() string { return a.front.base }

// Register adds the API's patterns to the mux of all heads.
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

// Handler returns the API as a handler of its own.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	a.Register(mux)
	return mux
}
