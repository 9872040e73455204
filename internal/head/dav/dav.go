package dav

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/space"
	"smartdrive/internal/usecase/upload"
)

// Prefix is where the head's own view is.
const Prefix = "/dav/"

// Options are what the head stands on.
type Options struct {
	Files   *files.Files
	Uploads *upload.Sessions
	Spaces  *space.Spaces
	// Caller says who sends a request, which changes something or does not, and takes one of their
	// places; release gives it back.
	Caller func(r *http.Request, changes bool) (who drive.Who, release func(), err error)
	// Balance reads the ledger of an account.
	Balance func(ctx context.Context, account drive.AccountID) (quota.Balance, error)
	// Litter says what is done with the files that desktops leave behind. Default: Keep.
	Litter func() Litter
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// BaseURL is how the server is reached from outside. Default: as the request came in.
	BaseURL string
}

// Head answers the requests. It is safe for concurrent use.
type Head struct {
	opt   Options
	marks files.Marks
}

// New puts the head together. It does no I/O.
func New(opt Options) *Head {
	if opt.Litter == nil {
		opt.Litter = func() Litter { return Keep }
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Head{opt: opt, marks: files.NewMarks(opt.Files)}
}

// Register adds the head's addresses to the mux of all heads.
func (h *Head) Register(mux *http.ServeMux) {
	own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Serve(w, r, View{Prefix: Prefix}) })
	mux.Handle(strings.TrimSuffix(Prefix, "/"), own)
	mux.Handle(Prefix, own)
}

// Layout says what is at the top of a view.
type Layout uint8

// The layouts; see the package comment.
const (
	Apart Layout = iota
	Home
)

// View is a tree under a prefix, as one head shows it.
type View struct {
	Prefix string // decoded, with a slash at both ends
	Layout Layout
	// Who is the caller, where the head has let them in already, with the release of their place.
	// Zero: Options.Caller says it.
	Who drive.Who
	// Properties are live ones beside those of this package, or in their place. Nil: none.
	Properties Properties
	// Sets reports whether a property is one that the head keeps itself; Set then sets it to a
	// text, or removes it. Nil: none is.
	Sets func(Name) bool
	Set  func(ctx context.Context, e Entry, name Name, text string, remove bool) error
	// Sabre: answers are spelled as sabre/dav spells them (spelling.go).
	Sabre bool
	// Describe adds to the header of the answer about a file or folder that was made, changed or
	// read. Nil: nothing is added.
	Describe func(ctx context.Context, h http.Header, who drive.Who, e Entry)
}

// Properties finds live properties of a page of entries. The function that it returns is asked for
// each entry and name: the XML inside the element, and whether the entry has the property. names
// are what the client wants to know; nil: all.
type Properties func(ctx context.Context, who drive.Who, page []Entry, names []Name) (func(Entry, Name) (inner string, found bool), error)

// Entry is a file or folder of a view.
type Entry struct {
	files.NodeView

	Virtual bool         // a folder of the layout, which is no node
	Place   string       // the place of its address; empty: the caller's own drive
	Path    drive.Path   // below the place
	Node    drive.NodeID // zero: it is virtual
	href    string       // escaped; that of a folder ends in a slash
}

// IsFolder reports whether the entry is a folder.
func (e Entry) IsFolder() bool { return e.Virtual || e.Type == "folder" }

// call is one request.
type call struct {
	*Head
	view View
	w    http.ResponseWriter
	r    *http.Request
	who  drive.Who
	at   place // of the address

	lists  []ifList                // of the If header
	tokens []string                // of locks, that the request submits
	expect tree.Expect             // what the request was decided by
	roots  map[drive.NodeID]string // addresses of nodes with locks that hold at what is below them
}

func (c *call) now() time.Time { return c.opt.Now() }

// method is what a request may ask for.
type method struct {
	run     func(*call, context.Context) error
	changes bool
	fresh   bool // it may name what is not there: a name that cannot be is refused as such
}

// methods is the table of what the head does.
func methods() map[string]method {
	return map[string]method{
		http.MethodGet:    {run: (*call).get},
		http.MethodHead:   {run: (*call).get},
		"PROPFIND":        {run: (*call).propfind},
		"PROPPATCH":       {run: (*call).proppatch, changes: true},
		http.MethodPut:    {run: (*call).put, changes: true, fresh: true},
		"MKCOL":           {run: decided((*call).mkcol), changes: true, fresh: true},
		http.MethodDelete: {run: decided((*call).remove), changes: true},
		"COPY":            {run: decided((*call).copy), changes: true},
		"MOVE":            {run: decided((*call).move), changes: true},
		"LOCK":            {run: (*call).lock, changes: true, fresh: true},
		"UNLOCK":          {run: (*call).unlock, changes: true},
		http.MethodPatch:  {run: (*call).giveChecksum},
	}
}

const allow = "OPTIONS, GET, HEAD, PUT, DELETE, PROPFIND, PROPPATCH, MKCOL, COPY, MOVE, LOCK, UNLOCK"

// classes is the DAV header (RFC 4918 §10.1).
const classes = "1, 2, 3"

// Serve answers a request for a view.
func (h *Head) Serve(w http.ResponseWriter, r *http.Request, v View) {
	c := &call{Head: h, view: v, w: w, r: r}
	if err := c.serve(); err != nil {
		c.refuse(err)
	}
}

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
		if !m.fresh && drive.IsKind(err, drive.BadName) { // nothing can have such a name
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

// notAllowed returns the refusal of a method, with those that are allowed.
func notAllowed(method string) error {
	return drive.Fail(drive.Method, "method", server.Clip(method), "allow", strings.Split(allow, ", "))
}

// options says what there is; nobody needs to log in for it: some clients ask before they do.
func (c *call) options() {
	h := c.w.Header()
	setClasses(h)
	h.Set("Allow", allow)
	h.Set("Content-Length", "0")
	c.w.WriteHeader(http.StatusOK)
}

// setClasses sets the headers by which clients know a WebDAV server. The keys are set as they are
// written: there are clients that compare them with their case.
func setClasses(h http.Header) {
	h["DAV"] = []string{classes}
	h["MS-Author-Via"] = []string{"DAV"} // Microsoft's clients take the server for FrontPage otherwise
}

// subPath is the path of the base URL, which the server has taken off the address.
func (c *call) subPath() string {
	if u, err := url.Parse(c.opt.BaseURL); err == nil {
		return strings.TrimSuffix(u.Path, "/")
	}
	return ""
}
