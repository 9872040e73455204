package nextcloud

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/head/dav"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/batch"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/share"
	"smartdrive/internal/usecase/space"
	"smartdrive/internal/usecase/thumb"
	"smartdrive/internal/usecase/upload"
)

// Options are what the head stands on.
type Options struct {
	DAV      *dav.Head
	Files    *files.Files
	Uploads  *upload.Sessions
	Batches  *batch.Batches
	Thumbs   *thumb.Maker
	Sessions *account.Sessions
	Shelf    *files.Shelf // favourites are stars
	Spaces   *space.Spaces
	Shares   *share.Shares
	Numbers  *space.Numbers // ids of shares
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Caller says who sends a request, which changes something or does not, and takes one of their
	// places; release gives it back.
	Caller func(r *http.Request, changes bool) (who drive.Who, release func(), err error)
	// Visitor takes a place for somebody who has not logged in.
	Visitor func(r *http.Request) (release func(), err error)
	// Name is the name of a user.
	Name func(ctx context.Context, user drive.UserID) (string, error)
	// Balance reads the ledger of an account.
	Balance func(ctx context.Context, account drive.AccountID) (quota.Balance, error)
	// BaseURL is how the server is reached from outside. Default: as the request came in.
	BaseURL string
	// Instance tells this installation's ids of nodes from those of others: a few letters and
	// digits.
	Instance string
	// Fingerprint is of the data, and another one after each restore of a backup. Clients keep what
	// they have that is newer when it changes.
	Fingerprint string
	// ZeroWithin is how long chunk 1 of a client that may number its chunks from 0 waits for that
	// one, which such a client sends at the same time. Default: 5 s.
	ZeroWithin time.Duration
	// EarlyWithin is how long a chunk waits for those before it while none comes: a client that
	// sends several at a time has sent them by then. Default: 5 s.
	EarlyWithin time.Duration
}

// Head answers the requests. It is safe for concurrent use.
type Head struct {
	Options

	tags  *files.FolderTags
	lines lines
}

// New puts the head together. It does no I/O.
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
	return &Head{Options: opt, tags: files.NewFolderTags(opt.Files), lines: lines{all: map[string]*line{}}}
}

// Prefixes are what the addresses of this head begin with.
func Prefixes() []string { return []string{"/remote.php/", "/ocs/", "/index.php/", "/status.php"} }

// Register adds the head's addresses to the mux of all heads.
func (h *Head) Register(mux *http.ServeMux) {
	mux.Handle("/status.php", h.handler((*call).status))
	mux.Handle("/index.php/", h.handler((*call).index))
	mux.Handle("/login/v2", h.handler((*call).beginFlow)) // as servers that hide index.php have it
	mux.Handle("/login/v2/poll", h.handler((*call).poll))
	mux.Handle("/ocs/", h.handler((*call).ocs))
	mux.Handle("/remote.php/", h.handler((*call).remote))
}

// call is one request.
type call struct {
	*Head
	w    http.ResponseWriter
	r    *http.Request
	who  drive.Who
	path []string // the segments of the address
}

func (h *Head) handler(act func(*call, context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{Head: h, w: w, r: r, path: segments(r.URL.Path)}
		if err := act(c, r.Context()); err != nil {
			c.refuse(err)
		}
	})
}

func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// at returns a segment of the address; empty: it has fewer.
func (c *call) at(i int) string {
	if i < len(c.path) {
		return c.path[i]
	}
	return ""
}

const challenge = `Basic realm="SmartDrive", charset="UTF-8"`

// refuse answers with an error, in the form that clients of sabre/dav read.
func (c *call) refuse(err error) {
	status := dav.StatusOf(err)
	switch drive.KindOf(err) {
	case drive.ParentGone:
		status = http.StatusConflict
	case drive.VersionChanged, drive.NameTaken:
		status = http.StatusPreconditionFailed
	case drive.InProgress: // clients send it again later
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

// enter lets the caller in; leave must be called.
func (c *call) enter(changes bool) (leave func(), err error) {
	who, release, err := c.Caller(c.r, changes)
	if err != nil {
		return nil, err
	}
	c.who = who
	return release, nil
}

// reads reports whether a method changes nothing.
func reads(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "PROPFIND", "REPORT", "SEARCH":
		return true
	}
	return false
}

// methodNotAllowed says what an address is for.
func (c *call) methodNotAllowed(allow ...string) error {
	return drive.Fail(drive.Method, "method", server.Clip(c.r.Method), "allow", allow)
}

// base is the address of the server, without a final slash.
func (c *call) base() string { return server.BaseURL(c.BaseURL, c.r) }
