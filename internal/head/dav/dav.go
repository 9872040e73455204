package dav

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload"
)

// Prefix is the path of the head's own view.
const Prefix = "/dav/"

// Options are the dependencies and settings of the head.
type Options struct {
	Files   *files.Files
	Uploads *upload.Sessions
	Spaces  *space.Spaces
	// Caller authenticates a request and occupies one of the user's slots for concurrent requests.
	// changes says that the request may change something. Without an error the head calls release
	// after the response.
	Caller func(r *http.Request, changes bool) (who drive.Who, release func(), err error)
	// Balance returns the quota of an account and how much of it is used.
	Balance func(ctx context.Context, account drive.AccountID) (quota.Balance, error)
	// Litter returns the policy for files that desktops create. Default: Keep.
	Litter func() Litter
	// Now returns the time. Default: time.Now.
	Now func() time.Time
	// BaseURL is the URL of the server as clients reach it. Its path is part of the URLs in
	// responses. Empty: clients reach the server without a further path, and Destination may name
	// any host.
	BaseURL string
}

// Head serves WebDAV requests. It is safe for concurrent use.
type Head struct {
	opt   Options
	marks files.DAVMetadata
}

// New returns a head with the zero fields of opt replaced by defaults. It does no I/O. The caller
// must Register it.
func New(opt Options) *Head {
	if opt.Litter == nil {
		opt.Litter = func() Litter { return Keep }
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Head{opt: opt, marks: files.NewDAVMetadata(opt.Files)}
}

// Register adds the head's routes to mux. Call it once per mux.
func (h *Head) Register(mux *http.ServeMux) {
	own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Serve(w, r, View{Prefix: Prefix}) })
	mux.Handle(strings.TrimSuffix(Prefix, "/"), own)
	mux.Handle(Prefix, own)
}

// Layout determines which folders a view has at the top.
type Layout uint8

// The layouts; see the package comment.
const (
	Separate Layout = iota
	Merged
)

// View is a tree of files under a URL prefix, as one head presents it.
type View struct {
	Prefix string // unescaped, with a slash at both ends
	Layout Layout
	// Who is the caller, if the head that calls Serve has authenticated the request already and
	// occupies a slot. Zero: Serve calls Options.Caller.
	Who drive.Who
	// Properties reads the live properties, which the server computes, that add to or replace those
	// of this package. Nil: none.
	Properties Properties
	// Sets reports whether the view stores a property itself, by calling Set, instead of this
	// package. Set stores text for the caller of the request, or removes the property if remove is
	// true. Nil Sets: no property.
	Sets func(Name) bool
	Set  func(ctx context.Context, e Entry, name Name, text string, remove bool) error
	// Sabre selects the XML spelling of sabre/dav for responses (spelling.go).
	Sabre bool
	// Describe adds headers to the response about an entry that was created, changed or read. Nil:
	// none.
	Describe func(ctx context.Context, h http.Header, who drive.Who, e Entry)
}

// Properties reads the live properties of a page of entries. names are the requested properties;
// nil: all. The returned function looks one property up: the XML inside of its element, and whether
// the entry has it. An error fails the whole page.
type Properties func(ctx context.Context, who drive.Who, page []Entry, names []Name) (func(Entry, Name) (inner string, found bool), error)

// Entry is a file or folder of a view.
type Entry struct {
	files.NodeView

	Virtual bool         // a folder of the layout, without a node
	Place   string       // drive or space of its address; empty: the caller's own drive
	Path    drive.Path   // path below Place
	Node    drive.NodeID // zero for a virtual entry
	href    string       // escaped URL path; a folder's ends in a slash
}

// IsFolder reports whether the entry is a folder, of the tree or only of the layout.
func (e Entry) IsFolder() bool { return e.Virtual || e.Type == "folder" }

// call is one request while it is handled. It is used by one goroutine.
type call struct {
	*Head
	view View
	w    http.ResponseWriter
	r    *http.Request
	who  drive.Who
	at   location // location in the request's URL

	lists  []ifList                // lists of the If header
	tokens []string                // lock tokens that the request submits
	expect tree.Expect             // state that the request's decision is based on
	roots  map[drive.NodeID]string // URL paths of locked nodes above entries, by node
}

// now returns the time of Options.Now.
func (c *call) now() time.Time { return c.opt.Now() }

// method describes the handling of one HTTP method.
type method struct {
	run     func(*call, context.Context) error
	changes bool
	fresh   bool // may create a name, so an invalid name is reported as such
}

// methods returns the handled methods by name.
func methods() map[string]method {
	return map[string]method{
		http.MethodGet:    {run: (*call).get},
		http.MethodHead:   {run: (*call).get},
		"PROPFIND":        {run: (*call).propfind},
		"PROPPATCH":       {run: (*call).proppatch, changes: true},
		http.MethodPut:    {run: (*call).put, changes: true, fresh: true},
		"MKCOL":           {run: retrying((*call).mkcol), changes: true, fresh: true},
		http.MethodDelete: {run: retrying((*call).remove), changes: true},
		"COPY":            {run: retrying((*call).copy), changes: true},
		"MOVE":            {run: retrying((*call).move), changes: true},
		"LOCK":            {run: (*call).lock, changes: true, fresh: true},
		"UNLOCK":          {run: (*call).unlock, changes: true},
		http.MethodPatch:  {run: (*call).patchChecksum},
	}
}

// allow lists the supported methods for the Allow header.
const allow = "OPTIONS, GET, HEAD, PUT, DELETE, PROPFIND, PROPPATCH, MKCOL, COPY, MOVE, LOCK, UNLOCK"

// classes is the value of the DAV header (RFC 4918 §10.1).
const classes = "1, 2, 3"

// Serve authenticates and answers a request for a view, and renders errors itself.
func (h *Head) Serve(w http.ResponseWriter, r *http.Request, v View) {
	c := &call{Head: h, view: v, w: w, r: r}
	if err := c.serve(); err != nil {
		c.refuse(err)
	}
}

// serve authenticates the request unless the view names a user, parses the URL and the If header,
// and runs the method. It returns errors for the caller to render: drive.Method for an unknown
// method, drive.NotFound where an invalid name cannot exist.
func (c *call) serve() error {
	if c.r.Method == http.MethodOptions {
		c.options()
		return nil
	}
	m, ok := methods()[c.r.Method]
	if !ok {
		return notAllowed(c.r.Method)
	}
	if c.who = c.view.Who; c.who.User.IsZero() {
		who, release, err := c.opt.Caller(c.r, m.changes)
		if err != nil {
			return err
		}
		defer release()
		c.who = who
	}
	var err error
	if c.at, err = c.parse(c.r.URL); err != nil {
		if !m.fresh && drive.IsKind(err, drive.BadName) { // no node can have such a name
			err = drive.Wrap(err, drive.NotFound)
		}
		return err
	}
	if err := readTokens(c); err != nil {
		return err
	}
	c.who.Tokens = submitted(c)
	return m.run(c, c.r.Context())
}

// notAllowed returns the error for a method that is not allowed; it lists the allowed ones.
func notAllowed(method string) error {
	return drive.Fail(drive.Method, "method", server.Clip(method), "allow", strings.Split(allow, ", "))
}

// options answers OPTIONS without authentication, because some clients ask before they log in.
func (c *call) options() {
	h := c.w.Header()
	setClasses(h)
	h.Set("Allow", allow)
	h.Set("Content-Length", "0")
	c.w.WriteHeader(http.StatusOK)
}

// setClasses sets the headers by which clients recognize a WebDAV server. The keys keep their case,
// because some clients compare header names with their case.
func setClasses(h http.Header) {
	h["DAV"] = []string{classes}
	h["MS-Author-Via"] = []string{"DAV"} // otherwise Microsoft's clients take the server for FrontPage
}

// subPath returns the path of Options.BaseURL without a trailing slash; "" if it has none. The
// server has removed it from the path of a request, so URLs in responses must begin with it.
func (c *call) subPath() string {
	if u, err := url.Parse(c.opt.BaseURL); err == nil {
		return strings.TrimSuffix(u.Path, "/")
	}
	return ""
}
