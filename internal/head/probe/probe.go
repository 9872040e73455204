// Package probe answers "smartdrive doctor", which looks at an installation from outside: it tells
// what of a request has arrived, and how, so that one can see what a proxy in between does to it.
// It reads and changes nothing of anybody's. Only who has logged in may ask, a few at a time, and
// within narrow limits.
//
//	/api/v1/probe/echo     any method: what has arrived
//	/api/v1/probe/stream   an event stream: three events, half a second apart
//	/api/v1/probe/bytes    1,000 bytes, with ranges
//	/api/v1/probe/slow     an answer after ?seconds=
//	/api/v1/probe/disk     whether there is room on the disk
package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/head/server"
)

// Prefix is where the probes are.
const Prefix = "/api/v1/probe/"

const (
	maxBody    = 64 << 20         // bytes that echo takes in
	maxSlow    = 90 * time.Second // longer than common proxies wait
	atOnce     = 16               // requests of all users together
	events     = 3
	eventEvery = 500 * time.Millisecond
)

// Options are what the head stands on.
type Options struct {
	// Caller says who sends a request; release gives their place back.
	Caller func(r *http.Request) (release func(), err error)
	// Disk tells how much room there is. Default: Boundless.
	Disk func(ctx context.Context) (Disk, error)
	Now  func() time.Time // default time.Now
}

// Disk says whether there is room where the contents lie. How much it is, is not everybody's to
// know.
type Disk string

// The states of a disk.
const (
	Boundless Disk = "boundless" // the store has no end that anybody knows of
	Roomy     Disk = "roomy"
	Low       Disk = "low"  // lowTimes of what is kept free, or less
	Full      Disk = "full" // uploads are refused
)

// lowTimes is how many times of what is kept free are little.
const lowTimes = 10

// DiskOf says what free bytes mean on a disk on which so many are kept free.
func DiskOf(free, least drive.ByteSize) Disk {
	switch {
	case free <= least:
		return Full
	case free/lowTimes <= least:
		return Low
	}
	return Roomy
}

// Head answers the requests. It is safe for concurrent use.
type Head struct {
	opt  Options
	room chan struct{}
}

// New puts the head together. It does no I/O.
func New(opt Options) *Head {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Disk == nil {
		opt.Disk = func(context.Context) (Disk, error) { return Boundless, nil }
	}
	return &Head{opt: opt, room: make(chan struct{}, atOnce)}
}

// Register adds the head's addresses to the mux of all heads. They have no method: it is one of the
// things that are looked at.
func (h *Head) Register(mux *http.ServeMux) {
	mux.Handle(Prefix+"echo", h.handler(h.echo))
	mux.Handle(Prefix+"stream", h.handler(stream))
	mux.Handle(Prefix+"bytes", h.handler(sample))
	mux.Handle(Prefix+"slow", h.handler(slow))
	mux.Handle(Prefix+"disk", h.handler(h.disk))
}

func (h *Head) handler(act func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.serve(w, r, act); err != nil {
			problem.Write(w, r, err)
		}
	})
}

func (h *Head) serve(w http.ResponseWriter, r *http.Request, act func(http.ResponseWriter, *http.Request) error) error {
	release, err := h.opt.Caller(r)
	if err != nil {
		return err
	}
	defer release()
	select {
	case h.room <- struct{}{}:
	default:
		return drive.Fail(drive.Rate, "retry_after", 10)
	}
	defer func() { <-h.room }()
	w.Header().Set("Cache-Control", "no-store")
	return act(w, r)
}

// Seen is what has arrived of a request.
type Seen struct {
	Method  string    `json:"method"`
	Headers []string  `json:"headers"` // their names, sorted; no values: they may be secret
	Host    string    `json:"host"`
	Scheme  string    `json:"scheme"`
	Client  string    `json:"client"` // the address that the server takes for the client's
	Bytes   int64     `json:"bytes"`  // of the body
	Chunked bool      `json:"chunked"`
	SpanMS  int64     `json:"span_ms"` // from the first byte of the body to the last
	Now     time.Time `json:"now"`
}

func (h *Head) echo(w http.ResponseWriter, r *http.Request) error {
	seen := Seen{
		Method: r.Method, Headers: []string{}, Host: r.Host, Scheme: r.URL.Scheme, Client: r.RemoteAddr,
		Chunked: slices.Contains(r.TransferEncoding, "chunked"), Now: h.opt.Now().UTC(),
	}
	for name := range r.Header {
		seen.Headers = append(seen.Headers, name)
	}
	slices.Sort(seen.Headers)
	var first, last time.Time
	body, buf := server.Incoming(r), make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if last = time.Now(); first.IsZero() {
				first = last
			}
		}
		if seen.Bytes += int64(n); seen.Bytes > maxBody {
			return drive.Fail(drive.TooLarge, "field", "body", "limit", maxBody, "sent", seen.Bytes)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	seen.SpanMS = last.Sub(first).Milliseconds()
	raw, err := json.Marshal(seen)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw) //nolint:gosec // JSON, and said to be; it fails only when the client is gone
	return nil
}

func (h *Head) disk(w http.ResponseWriter, r *http.Request) error {
	state, err := h.opt.Disk(r.Context())
	if err != nil {
		return err
	}
	raw, err := json.Marshal(map[string]Disk{"disk": state})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw) //nolint:gosec // JSON, and said to be; it fails only when the client is gone
	return nil
}

func stream(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for i := range events {
		_, err := fmt.Fprintf(w, "data: %d\n\n", i)
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		if err != nil {
			return nil //nolint:nilerr // the client is gone
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return nil
		}
	}
	return nil
}

func sample(w http.ResponseWriter, r *http.Request) error {
	const size = 1000 // bytes: each tells where it is
	content := make([]byte, size)
	for i := range content {
		content[i] = byte('0' + i%10)
	}
	w.Header().Set("ETag", `"probe"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return nil
}

func slow(w http.ResponseWriter, r *http.Request) error {
	seconds, err := strconv.Atoi(r.URL.Query().Get("seconds"))
	wait := time.Duration(seconds) * time.Second
	if err != nil || wait < 0 || wait > maxSlow {
		return drive.Bad("seconds", drive.OutOfRange, "min", 0, "max", int(maxSlow.Seconds()))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return nil
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
