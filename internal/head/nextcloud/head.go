package nextcloud

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/share"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/thumb"
	"example.org/smartdrive/internal/usecase/upload"
)

// Options are the dependencies and settings of the head.
type Options struct {
	DAV      *dav.Head
	Files    *files.Files
	Uploads  *upload.Sessions
	Batches  *batch.Batches
	Thumbs   *thumb.Maker
	Sessions *account.Sessions
	Shelf    *files.QuickAccess // stars, shown as favourites
	Spaces   *space.Spaces
	Shares   *share.Shares
	Numbers  *space.Numbers // assigns numbers to shares
	// Now returns the time. Default: time.Now.
	Now func() time.Time
	// Caller authenticates a request and occupies one of the user's slots for concurrent requests.
	// changes says that the request may change something. Without an error the head calls release
	// after the response.
	Caller func(r *http.Request, changes bool) (who drive.Who, release func(), err error)
	// Visitor occupies a slot for a request without a login. Without an error the head calls
	// release after the response.
	Visitor func(r *http.Request) (release func(), err error)
	// Name returns the name of a user.
	Name func(ctx context.Context, user drive.UserID) (string, error)
	// Balance returns the quota of an account and how much of it is used.
	Balance func(ctx context.Context, account drive.AccountID) (quota.Balance, error)
	// BaseURL is the URL of the server as clients reach it. Default: derived from each request.
	BaseURL string
	// Instance makes node ids unique among installations: a few letters and digits.
	Instance string
	// Fingerprint identifies the state of the server's data. The operator's restore of a backup
	// changes it. When a client sees another value, it keeps its newer files instead of replacing
	// them.
	Fingerprint string
	// ZeroWithin is how long chunk 1 waits for a chunk 0, if it is unknown whether the client
	// numbers from 0 or 1. A client that numbers from 0 sends both concurrently. Default: 5 s.
	ZeroWithin time.Duration
	// EarlyWithin is how long a chunk waits for missing earlier ones while none arrives; then it is
	// refused. Concurrent chunks arrive within that time. Default: 5 s.
	EarlyWithin time.Duration
}

// Head serves the Nextcloud protocol. It is safe for concurrent use.
type Head struct {
	Options

	tags          *files.FolderTags
	transferLocks transferLocks
}

// New returns a head with the zero fields of opt replaced by defaults. It does no I/O. The caller
// must Register it.
func New(opt Options) *Head {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.EarlyWithin == 0 {
		opt.EarlyWithin = 5 * time.Second
	}
	if opt.ZeroWithin == 0 {
		opt.ZeroWithin = 5 * time.Second
	}
	return &Head{Options: opt, tags: files.NewFolderTags(opt.Files), transferLocks: transferLocks{all: map[string]*transferLock{}}}
}

// Prefixes returns the path prefixes that this head serves, for server.Options.Loose.
func Prefixes() []string { return []string{"/remote.php/", "/ocs/", "/index.php/", "/status.php"} }

// Register adds the head's routes to mux.
func (h *Head) Register(mux *http.ServeMux) {
	mux.Handle("/status.php", h.handler((*call).status))
	mux.Handle("/index.php/", h.handler((*call).index))
	mux.Handle("/login/v2", h.handler((*call).beginFlow)) // the path on servers that hide index.php
	mux.Handle("/login/v2/poll", h.handler((*call).poll))
	mux.Handle("/ocs/", h.handler((*call).ocs))
	mux.Handle("/remote.php/", h.handler((*call).remote))
}

// call is one request while it is handled. It is used by one goroutine.
type call struct {
	*Head
	w    http.ResponseWriter
	r    *http.Request
	who  drive.Who
	path []string // segments of the URL path
}

// handler returns an http.Handler that runs act and renders its error with refuse.
func (h *Head) handler(act func(*call, context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{Head: h, w: w, r: r, path: segments(r.URL.Path)}
		if err := act(c, r.Context()); err != nil {
			c.refuse(err)
		}
	})
}

// segments splits a path at slashes and drops empty segments.
func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// at returns the i-th segment of the path, counted from 0; "" if there is none.
func (c *call) at(i int) string {
	if i < len(c.path) {
		return c.path[i]
	}
	return ""
}

// challenge is the value of WWW-Authenticate in 401 responses.
const challenge = `Basic realm="SmartDrive", charset="UTF-8"`

// refuse renders err in the XML format of sabre/dav, with the statuses that Nextcloud clients
// expect: 409 for a missing folder, 412 for a conflict, 503 where the client shall retry.
func (c *call) refuse(err error) {
	status := dav.StatusOf(err)
	switch drive.KindOf(err) {
	case drive.ParentGone:
		status = http.StatusConflict
	case drive.VersionChanged, drive.NameTaken:
		status = http.StatusPreconditionFailed
	case drive.InProgress: // clients retry at 503
		status = http.StatusServiceUnavailable
	default:
	}
	problem.WriteAs(c.w, c.r, err, problem.Dialect{
		Status: status, Challenge: challenge,
		Render: func(d problem.Document) (string, []byte) {
			return "application/xml; charset=utf-8", fmt.Appendf(nil,
				`<?xml version="1.0" encoding="utf-8"?><d:error xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns"><s:exception>%s</s:exception><s:message>%s</s:message></d:error>`,
				escape(d.Code), escape(d.Title+": "+d.Detail))
		},
	})
}

// authenticate authenticates the request, sets c.who and occupies a slot of the user. changes says
// that the request may change something. Without an error the caller must call leave after the
// response. It fails with drive.Unauthenticated, or drive.Rate if no slot is free; then leave is
// nil.
func (c *call) authenticate(changes bool) (leave func(), err error) {
	who, release, err := c.Caller(c.r, changes)
	if err != nil {
		return nil, err
	}
	c.who = who
	return release, nil
}

// reads reports whether a method is known to change nothing. It is false for unknown methods.
func reads(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "PROPFIND", "REPORT", "SEARCH":
		return true
	}
	return false
}

// methodNotAllowed returns a drive.Method error that lists the allowed methods for the Allow
// header.
func (c *call) methodNotAllowed(allow ...string) error {
	return drive.Fail(drive.Method, "method", server.Clip(c.r.Method), "allow", allow)
}

// base returns the URL of the server without a final slash.
func (c *call) base() string { return server.BaseURL(c.BaseURL, c.r) }
