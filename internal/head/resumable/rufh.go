package resumable

import (
	"hash"
	"net/http"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload"
)

// interop is the draft's interop version (appendix "Draft Version Identification").
const interop = "8"

// Names of the header fields.
const (
	completeField = "Upload-Complete"
	offsetField   = "Upload-Offset"
	lengthField   = "Upload-Length"
	limitField    = "Upload-Limit"
	interopField  = "Upload-Draft-Interop-Version"
)

const (
	// prefix is the path of uploads; filesPrefix, that of files in the native API.
	prefix      = "/resumable/"
	filesPrefix = "/api/v1/files/"
	// bytesType is the media type of a PATCH body.
	bytesType = "application/partial-upload"
)

// Options configure New. All fields without a default are required.
type Options struct {
	Uploads *upload.Sessions
	// Authenticate authenticates a request that changes files, and occupies one of the user's slots
	// for concurrent requests. Without an error the head calls release after the response.
	Authenticate func(r *http.Request) (who drive.Who, release func(), err error)
	// ReadPut parses the headers of a PUT of a file.
	ReadPut func(r *http.Request) (upload.PutFile, error)
	// AnswerPut writes the response of a PUT of a file.
	AnswerPut func(w http.ResponseWriter, r *http.Request, file tree.Node, created bool) error
	// BaseURL is the server's external URL. Default: derived from the request.
	BaseURL string
	Now     func() time.Time // default time.Now
}

// Head serves the requests of the protocol. It is safe for concurrent use.
type Head struct{ Options }

// New returns a Head. Options.Now defaults to time.Now. It does no I/O.
func New(opt Options) *Head {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Head{opt}
}

// Register adds the routes of the head to mux. PUT of a file is a route of the native API, which
// calls Accepts.
func (h *Head) Register(mux *http.ServeMux) {
	mux.Handle("POST "+filesPrefix+"{path...}", h)
	mux.HandleFunc("OPTIONS "+filesPrefix+"{path...}", h.options)
	mux.HandleFunc("OPTIONS "+prefix+"{id}", h.options)
	mux.Handle("GET "+prefix+"{id}", h.handler((*call).head)) // HEAD, too
	mux.Handle("PATCH "+prefix+"{id}", h.handler((*call).patch))
	mux.Handle("DELETE "+prefix+"{id}", h.handler((*call).delete))
}

// Accepts reports whether a PUT of a file creates an upload of this protocol; the native API then
// passes it to ServeHTTP. That is so if it has Upload-Complete. A PUT of a whole file with another
// interop version or a condition is left to the native API, because a server need not offer
// resumption.
func (h *Head) Accepts(r *http.Request) bool {
	complete, there := boolean(r.Header, completeField)
	return there && (!complete || supportsDraft(r) && !conditional(r))
}

// supportsDraft reports whether the request names this head's interop version; an absent field does
// not.
func supportsDraft(r *http.Request) bool {
	version, there := integer(r.Header, interopField)
	return there && formatInteger(version) == interop
}

// conditional reports whether the request has If-Match or If-None-Match.
func conditional(r *http.Request) bool {
	return r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != ""
}

// ServeHTTP handles a PUT or POST to the path of a file that begins an upload. It renders errors
// itself.
func (h *Head) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.handler((*call).create).ServeHTTP(w, r)
}

// call is the state of one request.
type call struct {
	*Head
	w   http.ResponseWriter
	r   *http.Request
	who drive.Who
	id  drive.UploadID // from the path; zero: none
	sum hash.Hash      // SHA-256 of the whole file; nil: not wanted, or the file comes in several requests
}

// handler returns a handler that authenticates a request, runs act, and answers with its error if
// there is one. Without an error act must have answered.
func (h *Head) handler(act func(*call) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(interopField, interop)
		c := &call{Head: h, w: w, r: r}
		if err := c.serve(act); err != nil {
			c.fail(err)
		}
	})
}

// serve authenticates the request, sets c.who and, where the path has one, c.id, and runs act. It
// fails with drive.Unauthenticated, or with the error of ParseID for a malformed id.
func (c *call) serve(act func(*call) error) error {
	who, release, err := c.Authenticate(c.r)
	if err != nil {
		return err
	}
	defer release()
	c.who = who
	if id := c.r.PathValue("id"); id != "" {
		if c.id, err = drive.ParseID[drive.UploadID](id); err != nil {
			return err
		}
	}
	return act(c)
}

// options announces resumable uploads and their limits (§4.1.4), without authentication.
func (h *Head) options(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(interopField, interop)
	w.Header().Set("Accept-Patch", bytesType)
	w.Header().Set(limitField, limit(drive.MaxFileSize))
	allow := "OPTIONS, POST, PUT"
	if r.PathValue("id") != "" {
		allow = "OPTIONS, GET, HEAD, PATCH, DELETE"
	}
	w.Header().Set("Allow", allow)
	w.WriteHeader(http.StatusNoContent)
}

// limit returns the Upload-Limit value for a maximum size.
func limit(most drive.ByteSize) string { return "max-size=" + formatInteger(most) }

// setLimit sets Upload-Limit: the maximum size, and for an upload that accepts bytes the seconds
// until it expires without activity.
func (c *call) setLimit(pos upload.Position) {
	most := pos.MaxSize
	if most == 0 {
		most = drive.MaxFileSize
	}
	text := limit(most)
	if pos.State == upload.Active || pos.State == upload.Parked {
		left := pos.ExpiresAt.Std().Sub(c.Now())
		text += ", max-age=" + formatInteger(int64(max(left, 0)/time.Second))
	}
	c.w.Header().Set(limitField, text)
}

// location returns the absolute URL under which an upload is continued.
func (c *call) location(id drive.UploadID) string {
	return server.BaseURL(c.BaseURL, c.r) + prefix + id.String()
}

// bodySize returns the length of the request body; UnknownSize if it is not declared.
func (c *call) bodySize() drive.ByteSize {
	if c.r.ContentLength < 0 {
		return blob.UnknownSize
	}
	return drive.ByteSize(c.r.ContentLength)
}
