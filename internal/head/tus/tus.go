package tus

import (
	"net/http"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/upload"
)

// Version is the one version of the protocol that is spoken.
const Version = "1.0.0"

// Prefix is where uploads are: a client is given Prefix, with or without its last slash, as the
// endpoint.
const Prefix = "/tus/"

// extensions is the Tus-Extension header.
const extensions = "creation,creation-with-upload,creation-defer-length,termination,checksum,checksum-trailer,expiration," +
	"concatenation"

// Options are what the head stands on.
type Options struct {
	Uploads *upload.Sessions
	// Caller says who sends a request, and takes one of their places; release gives it back.
	Caller func(r *http.Request) (by Caller, release func(), err error)
	// Content is the address of a file's content, below the base URL.
	Content func(file drive.NodeID) string
	// BaseURL is how the server is reached from outside. Default: as the request came in.
	BaseURL string
}

// Caller is who sends a request.
type Caller struct {
	Who    drive.Who
	Sender Sender // of a collect link, who uploads into somebody else's account; nil: Who is the account's own user
}

// Head answers the requests. It is safe for concurrent use.
type Head struct{ Options }

// New puts the head together. It does no I/O.
func New(opt Options) *Head { return &Head{opt} }

// Register adds the head's addresses to the mux of all heads. They have no method in their pattern:
// X-HTTP-Method-Override decides.
func (h *Head) Register(mux *http.ServeMux) {
	all := h.handler(methods{http.MethodPost: (*call).create})
	mux.Handle(strings.TrimSuffix(Prefix, "/"), all)
	mux.Handle(Prefix+"{$}", all)
	mux.Handle(Prefix+"{id}", h.handler(methods{
		http.MethodHead: (*call).head, http.MethodPatch: (*call).patch, http.MethodDelete: (*call).delete, http.MethodGet: (*call).get,
	}))
}

// methods are the actions of an address.
type methods map[string]func(*call) error

// call is one request.
type call struct {
	*Head
	w   http.ResponseWriter
	r   *http.Request
	who drive.Who
	by  Sender         // nil: a user
	id  drive.UploadID // of the address; zero: it has none
}

func (h *Head) handler(all methods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Tus-Resumable", Version)
		c := &call{Head: h, w: w, r: overridden(r)}
		if err := c.serve(all); err != nil {
			problem.WriteAs(w, r, err, problem.Dialect{Status: statusOf(err)})
		}
	})
}

// overridden is the request as it is meant: some networks know only GET and POST, so a client may
// say the method in a header.
func overridden(r *http.Request) *http.Request {
	method := r.Header.Get("X-HTTP-Method-Override")
	if method == "" {
		return r
	}
	meant := *r
	meant.Method = method
	return &meant
}

func (c *call) serve(all methods) error {
	act, ok := all[c.r.Method]
	switch {
	case c.r.Method == http.MethodOptions:
		c.options()
		return nil
	case !ok:
		return drive.Fail(drive.Method, "method", server.Clip(c.r.Method), "allow", allowed(all))
	case c.r.Method != http.MethodGet && c.r.Header.Get("Tus-Resumable") != Version: // a browser that looks does not say it
		c.w.Header().Set("Tus-Version", Version)
		return drive.Fail(drive.Precondition, "field", "Tus-Resumable", "expected", Version)
	}
	by, release, err := c.Caller(c.r)
	if err != nil {
		return err
	}
	defer release()
	c.who, c.by = by.Who, by.Sender
	return c.told(c.enter(act))
}

// enter reads the id in the address.
func (c *call) enter(act func(*call) error) (err error) {
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

// allowed lists the methods of an address.
func allowed(all methods) []string {
	list := []string{http.MethodOptions}
	for _, m := range []string{http.MethodPost, http.MethodHead, http.MethodPatch, http.MethodDelete, http.MethodGet} {
		if all[m] != nil {
			list = append(list, m)
		}
	}
	return list
}

// options says what there is; nobody needs to log in for it.
func (c *call) options() {
	h := c.w.Header()
	h.Set("Tus-Version", Version)
	h.Set("Tus-Extension", extensions)
	h.Set("Tus-Max-Size", number(drive.MaxFileSize))
	h.Set("Tus-Checksum-Algorithm", checksumNames)
	c.w.WriteHeader(http.StatusNoContent)
}

// location is the absolute address of an upload.
func (c *call) location(id drive.UploadID) string {
	return server.BaseURL(c.BaseURL, c.r) + Prefix + id.String()
}
