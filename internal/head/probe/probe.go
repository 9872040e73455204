// Package probe answers "smartdrive doctor", which examines an installation from outside: it
// reports
// how a request arrived, so that doctor sees what a proxy in between changes. It neither reads nor
// changes users' data. Only authenticated users may use it, a few at a time, within narrow limits.
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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/head/server"
)

// Prefix is the path prefix of the probes.
const Prefix = "/api/v1/probe/"

const (
	maxBody       = 64 << 20         // largest body of echo in bytes
	maxSlow       = 90 * time.Second // longer than common proxies wait
	maxConcurrent = 16               // concurrent requests of all users
	// events is the number of events that stream sends.
	events = 3
	// eventEvery is the interval between events of stream.
	eventEvery = 500 * time.Millisecond
)

// Options are the dependencies of the head.
type Options struct {
	// Caller authenticates a request and takes a slot of its user. The head calls release after the
	// response.
	Caller func(r *http.Request) (release func(), err error)
	// Disk returns the state of the disk. Default: Boundless.
	Disk func(ctx context.Context) (Disk, error)
	Now  func() time.Time // default time.Now
}

// Disk tells whether the disk of the contents has space left. The amount is not disclosed.
type Disk string

// The states of a disk.
const (
	Unlimited Disk = "boundless" // the store has no known limit
	Enough    Disk = "roomy"
	Low       Disk = "low"  // less than lowFactor times the reserve is free
	Full      Disk = "full" // uploads are refused
)

// lowFactor is the multiple of the reserve below which free space is low.
const lowFactor = 10

// DiskOf returns the state of a disk with so many free bytes, of which uploads leave least free.
func DiskOf(free, least drive.ByteSize) Disk {
	switch {
	case free <= least:
		return Full
	case free/lowFactor <= least:
		return Low
	}
	return Enough
}

// Head serves the probes. It is safe for concurrent use.
type Head struct {
	opt   Options
	slots chan struct{}
}

// New returns a head with the zero fields of opt replaced by defaults. It does no I/O.
func New(opt Options) *Head {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Disk == nil {
		opt.Disk = func(context.Context) (Disk, error) { return Unlimited, nil }
	}
	return &Head{opt: opt, slots: make(chan struct{}, maxConcurrent)}
}

// Register adds the head's routes to mux, for all methods, because doctor also tests methods.
func (h *Head) Register(mux *http.ServeMux) {
	mux.Handle(Prefix+"echo", h.handler(h.echo))
	mux.Handle(Prefix+"stream", h.handler(stream))
	mux.Handle(Prefix+"bytes", h.handler(sample))
	mux.Handle(Prefix+"slow", h.handler(slow))
	mux.Handle(Prefix+"disk", h.handler(h.disk))
}

// handler returns an http.Handler that runs act under serve and renders its error as a problem.
func (h *Head) handler(act func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.serve(w, r, act); err != nil {
			problem.Write(w, r, err)
		}
	})
}

// serve authenticates the request and runs act if one of the head's slots is free. It fails with
// drive.Rate if none is.
func (h *Head) serve(w http.ResponseWriter, r *http.Request, act func(http.ResponseWriter, *http.Request) error) error {
	release, err := h.opt.Caller(r)
	if err != nil {
		return err
	}
	defer release()
	select {
	case h.slots <- struct{}{}:
	default:
		return drive.Fail(drive.Rate, "retry_after", 10)
	}
	defer func() { <-h.slots }()
	w.Header().Set("Cache-Control", "no-store")
	return act(w, r)
}

// Echo describes a request as it arrived.
type Echo struct {
	Method  string    `json:"method"`
	Headers []string  `json:"headers"` // sorted names without values, which may be secret
	Host    string    `json:"host"`
	Scheme  string    `json:"scheme"`
	Client  string    `json:"client"` // address that the server takes for the client's
	Bytes   int64     `json:"bytes"`  // length of the body
	Chunked bool      `json:"chunked"`
	SpanMS  int64     `json:"span_ms"` // time from the first to the last byte of the body
	Now     time.Time `json:"now"`
}

// echo reads the request body and replies with what arrived: method, header names, size and the
// milliseconds from its first to its last byte. It fails with drive.TooLarge above maxBody.
func (h *Head) echo(w http.ResponseWriter, r *http.Request) error {
	seen := Echo{
		Method: r.Method, Headers: []string{}, Host: r.Host, Scheme: r.URL.Scheme, Client: r.RemoteAddr,
		Chunked: slices.Contains(r.TransferEncoding, "chunked"), Now: h.opt.Now().UTC(),
	}
	for name := range r.Header {
		seen.Headers = append(seen.Headers, name)
	}
	slices.Sort(seen.Headers)
	var first, last time.Time
	body, buf := server.RequestBody(r), make([]byte, 32<<10)
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

// disk replies with the result of Options.Disk as JSON.
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

// stream sends a fixed number of server-sent events at an interval. A client that disconnects ends
// it without an error.
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
			return nil //nolint:nilerr // the client is disconnected
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return nil
		}
	}
	return nil
}

// sample serves 1,000 digits, each its own position, with range support.
func sample(w http.ResponseWriter, r *http.Request) error {
	const size = 1000 // bytes, each of which shows its position
	content := make([]byte, size)
	for i := range content {
		content[i] = byte('0' + i%10)
	}
	w.Header().Set("ETag", `"probe"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return nil
}

// slow replies 204 after the seconds of the query. It fails with drive.BadRequest outside of 0 to
// maxSlow. A client that disconnects ends it early.
func slow(w http.ResponseWriter, r *http.Request) error {
	seconds, err := strconv.Atoi(r.URL.Query().Get("seconds"))
	wait := time.Duration(seconds) * time.Second
	if err != nil || wait < 0 || wait > maxSlow {
		return drive.BadField("seconds", drive.OutOfRange, "min", 0, "max", int(maxSlow.Seconds()))
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
