package tus

import (
	"net/http"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload"
)

// Version is the only supported version of the protocol.
const Version = "1.0.0"

// Prefix is the path of all uploads. Clients use it, with or without the trailing slash, as their
// endpoint.
const Prefix = "/tus/"

// extensions is the value of Tus-Extension.
const extensions = "creation,creation-with-upload,creation-defer-length,termination,checksum,checksum-trailer,expiration," +
	"concatenation"

// Options configure New. All fields without a default are required.
type Options struct {
	Uploads *upload.Sessions
	// Authenticate authenticates a request, and occupies one of the caller's slots for concurrent
	// requests. Without an error the head calls release after the response.
	Authenticate func(r *http.Request) (by Caller, release func(), err error)
	// Content returns the path of a file's content below the base URL.
	Content func(file drive.NodeID) string
	// BaseURL is the server's external URL. Default: derived from the request.
	BaseURL string
}

// Caller is whom a request was authenticated as: a user, or the sender of a collect link.
type Caller struct {
	Who    drive.Who
	Sender Sender // sender of a collect link; nil: a user of the account itself
}

// Head serves the requests of the protocol. It is safe for concurrent use.
type Head struct{ Options }

// New returns a Head. It does no I/O. The caller must register its routes.
func New(opt Options) *Head { return &Head{opt} }

// Register adds the routes of the head to mux. Their patterns have no method, because
// X-HTTP-Method-Override may replace it.
func (h *Head) Register(mux *http.ServeMux) {
	all := h.handler(routeMethods{http.MethodPost: (*call).create})
	mux.Handle(strings.TrimSuffix(Prefix, "/"), all)
	mux.Handle(Prefix+"{$}", all)
	mux.Handle(Prefix+"{id}", h.handler(routeMethods{
		http.MethodHead: (*call).head, http.MethodPatch: (*call).patch, http.MethodDelete: (*call).delete, http.MethodGet: (*call).get,
	}))
}

// routeMethods maps the methods of a route to their actions.
type routeMethods map[string]func(*call) error

// call is the state of one request.
type call struct {
	*Head
	w      http.ResponseWriter
	r      *http.Request
	who    drive.Who
	sender Sender         // nil: a user
	id     drive.UploadID // from the path; zero: none
}

// handler returns a handler that authenticates a request, runs the action of its method, and
// renders errors with the statuses of tus.
func (h *Head) handler(all routeMethods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Tus-Resumable", Version)
		c := &call{Head: h, w: w, r: overridden(r)}
		if err := c.serve(all); err != nil {
			problem.WriteAs(w, r, err, problem.Dialect{Status: statusOf(err)})
		}
	})
}

// overridden returns the request with the method of X-HTTP-Method-Override, which clients use in
// networks that pass only GET and POST.
func overridden(r *http.Request) *http.Request {
	method := r.Header.Get("X-HTTP-Method-Override")
	if method == "" {
		return r
	}
	meant := *r
	meant.Method = method
	return &meant
}

// serve checks the method and version, authenticates the request and runs its action. It fails with
// drive.Method, drive.Precondition for another version of tus, or drive.Unauthenticated.
func (c *call) serve(all routeMethods) error {
	act, ok := all[c.r.Method]
	switch {
	case c.r.Method == http.MethodOptions:
		c.options()
		return nil
	case !ok:
		return drive.Fail(drive.Method, "method", server.Clip(c.r.Method), "allow", allowed(all))
	case c.r.Method != http.MethodGet && c.r.Header.Get("Tus-Resumable") != Version: // browsers do not send it
		c.w.Header().Set("Tus-Version", Version)
		return drive.Fail(drive.Precondition, "field", "Tus-Resumable", "expected", Version)
	}
	by, release, err := c.Authenticate(c.r)
	if err != nil {
		return err
	}
	defer release()
	c.who, c.sender = by.Who, by.Sender
	return c.redact(c.route(act))
}

// route parses the id in the path into c.id, if there is one, and runs act. It fails with
// drive.NotFound if a sender addresses an upload that the sender did not begin; for users, act
// checks that.
func (c *call) route(act func(*call) error) (err error) {
	if id := c.r.PathValue("id"); id != "" {
		if c.id, err = drive.ParseID[drive.UploadID](id); err != nil {
			return err
		}
		if err := c.owns(c.id); err != nil {
			return err
		}
	}
	return act(c)
}

// allowed returns the methods that all handles, and OPTIONS, for the Allow header.
func allowed(all routeMethods) []string {
	list := []string{http.MethodOptions}
	for _, m := range []string{http.MethodPost, http.MethodHead, http.MethodPatch, http.MethodDelete, http.MethodGet} {
		if all[m] != nil {
			list = append(list, m)
		}
	}
	return list
}

// options replies 204 with version, extensions and limits, without authentication.
func (c *call) options() {
	h := c.w.Header()
	h.Set("Tus-Version", Version)
	h.Set("Tus-Extension", extensions)
	h.Set("Tus-Max-Size", number(drive.MaxFileSize))
	h.Set("Tus-Checksum-Algorithm", checksumNames)
	c.w.WriteHeader(http.StatusNoContent)
}

// location returns the absolute URL of an upload, for the Location header.
func (c *call) location(id drive.UploadID) string {
	return server.BaseURL(c.BaseURL, c.r) + Prefix + id.String()
}
