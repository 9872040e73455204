package resumable

import (
	"hash"
	"net/http"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/upload"
)

// interop is the version of the draft (appendix "Draft Version Identification").
const interop = "8"

// The names of the header fields.
const (
	completeField = "Upload-Complete"
	offsetField   = "Upload-Offset"
	lengthField   = "Upload-Length"
	limitField    = "Upload-Limit"
	interopField  = "Upload-Draft-Interop-Version"
)

const (
	prefix      = "/resumable/"
	filesPrefix = "/api/v1/files/"
	bytesType   = "application/partial-upload"
)

// Options are what the head stands on.
type Options struct {
	Uploads *upload.Sessions
	// Writer says who sends a request that changes files, and takes one of their places; release
	// gives it back.
	Writer func(r *http.Request) (who drive.Who, release func(), err error)
	// ReadPut reads what a PUT of a file says.
	ReadPut func(r *http.Request) (upload.PutFile, error)
	// AnswerPut answers as a PUT of a file does.
	AnswerPut func(w http.ResponseWriter, r *http.Request, file tree.Node, created bool) error
	// BaseURL is how the server is reached from outside. Default: as the request came in.
	BaseURL string
	Now     func() time.Time // default time.Now
}

// Head answers the requests. It is safe for concurrent use.
type Head struct{ Options }

// New puts the head together. It does no I/O.
func New(opt Options) *Head {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Head{opt}
}

// Register adds the head's addresses to the mux of all heads. PUT of a file is the API's, which
// asks Takes.
func (h *Head) Register(mux *http.ServeMux) {
	mux.Handle("POST "+filesPrefix+"{path...}", h)
	mux.HandleFunc("OPTIONS "+filesPrefix+"{path...}", h.options)
	mux.HandleFunc("OPTIONS "+prefix+"{id}", h.options)
	mux.Handle("GET "+prefix+"{id}", h.handler((*call).head)) // HEAD, too
	mux.Handle("PATCH "+prefix+"{id}", h.handler((*call).patch))
	mux.Handle("DELETE "+prefix+"{id}", h.handler((*call).delete))
}

// Takes reports whether a PUT is a creation of this protocol. A whole file of another version, or
// under a condition, is the API's: to resume is an offer that a server need not make.
func (h *Head) Takes(r *http.Request) bool {
	complete, there := boolean(r.Header, completeField)
	return there && (!complete || speaks(r) && !conditional(r))
}

func speaks(r *http.Request) bool {
	version, there := integer(r.Header, interopField)
	return there && formatInteger(version) == interop
}

func conditional(r *http.Request) bool {
	return r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != ""
}

// ServeHTTP answers a creation.
func (h *Head) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.handler((*call).create).ServeHTTP(w, r)
}

// call is one request.
type call struct {
	*Head
	w   http.ResponseWriter
	r   *http.Request
	who drive.Who
	id  drive.UploadID // of the address; zero: it has none
	sum hash.Hash      // of all bytes of the file; nil: not wanted, or they did not come in this request
}

func (h *Head) handler(act func(*call) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(interopField, interop)
		c := &call{Head: h, w: w, r: r}
		if err := c.serve(act); err != nil {
			c.fail(err)
		}
	})
}

func (c *call) serve(act func(*call) error) error {
	who, release, err := c.Writer(c.r)
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

// options says that uploads can be resumed here, and their limits (§4.1.4); nobody needs to log in
// for it.
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

func limit(most drive.ByteSize) string { return "max-size=" + formatInteger(most) }

// setLimit says the limits of an upload: its largest size, and the seconds that it has to live
// unless more comes.
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

func (c *call) location(id drive.UploadID) string {
	return server.BaseURL(c.BaseURL, c.r) + prefix + id.String()
}

// bodySize is the length of the body.
func (c *call) bodySize() drive.ByteSize {
	if c.r.ContentLength < 0 {
		return blob.UnknownSize
	}
	return drive.ByteSize(c.r.ContentLength)
}
