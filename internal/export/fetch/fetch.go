package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
)

// Options configure New. The zero value of each field is its default.
type Options struct {
	Hosts   func() []string                                                      // that may be asked: see allows; default: none
	Private bool                                                                 // also at addresses of this network
	MaxSize drive.ByteSize                                                       // of a document; default 256 MiB, at most 1 GiB
	Time    time.Duration                                                        // for a whole document; default 10 min
	Stall   time.Duration                                                        // without a byte; default 30 s
	Pace    time.Duration                                                        // within which minPace must come, again and again; default 1 min
	Dial    func(ctx context.Context, network, address string) (net.Conn, error) // of tests; default: a dialer that looks at the address
}

// MaxDocument is the largest MaxSize: content that is kept as one part.
const MaxDocument = drive.GiB

const maxRedirects = 5

// minPace is how many bytes a second must come on average: what senders to this server must keep,
// too.
const minPace = 4 << 10

// Fetcher fetches documents. It is safe for concurrent use.
type Fetcher struct {
	opt    Options
	client *http.Client
}

// New returns a Fetcher.
func New(opt Options) *Fetcher {
	if opt.MaxSize == 0 {
		opt.MaxSize = 256 * drive.MiB
	}
	opt.MaxSize = min(opt.MaxSize, MaxDocument)
	if opt.Time == 0 {
		opt.Time = 10 * time.Minute
	}
	if opt.Stall == 0 {
		opt.Stall = 30 * time.Second
	}
	if opt.Pace == 0 {
		opt.Pace = time.Minute
	}
	if opt.Hosts == nil {
		opt.Hosts = func() []string { return nil }
	}
	if opt.Dial == nil {
		opt.Dial = Dialer(opt.Private)
	}
	f := &Fetcher{opt: opt}
	f.client = &http.Client{
		CheckRedirect: f.redirect,
		Transport: &http.Transport{
			DialContext: opt.Dial, DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: opt.Stall, MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2: true,
		},
	}
	return f
}

// Close ends idle connections.
func (f *Fetcher) Close() { f.client.CloseIdleConnections() }

// Check reports what is wrong with an address before anything is fetched: an *Error of class Final,
// or nil.
func (f *Fetcher) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return &Error{Final, NotAllowed, err}
	}
	return f.allowed(u)
}

func (f *Fetcher) allowed(u *url.URL) error {
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if usual == "" || u.Hostname() == "" || u.User != nil {
		return &Error{Final, NotAllowed, errors.New("not an http or https address without a user")}
	}
	port := u.Port()
	if port == "" {
		port = usual
	}
	if !allows(f.opt.Hosts(), u.Hostname(), port, usual) {
		return &Error{Final, NotAllowed, fmt.Errorf("host %q is not on the list", u.Host)}
	}
	return nil
}

func (f *Fetcher) redirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return &Error{Final, Redirected, errors.New("too often")}
	}
	if err := f.allowed(r.URL); err != nil {
		return &Error{Final, Redirected, err}
	}
	r.Header.Del("Referer")
	return nil
}

// Document is one that is being fetched. The caller reads it to its end and closes it.
type Document struct {
	io.ReadCloser
	Size     drive.ByteSize // -1: not declared
	Modified drive.Time     // zero: not declared
}

// Get begins to fetch a document that must be of a kind. Its errors, and those of reading it, are
// *Error, or the context's when that was cancelled.
func (f *Fetcher) Get(ctx context.Context, address string, kind Kind) (*Document, error) {
	if err := f.Check(address); err != nil {
		return nil, err
	}
	reqCtx, cancel := context.WithTimeout(ctx, f.opt.Time)
	req, err := http.NewRequestWithContext(reqCtx, http.MethodGet, address, nil)
	if err != nil {
		cancel()
		return nil, &Error{Final, NotAllowed, err}
	}
	req.Header.Set("User-Agent", "SmartDrive-export")
	res, err := f.client.Do(req)
	if err != nil {
		cancel()
		return nil, cause(ctx, err)
	}
	doc, err := f.document(ctx, cancel, res)
	if err != nil {
		cancel()
		_ = res.Body.Close() // it is given up
		return nil, err
	}
	whole, err := kind.check(doc.ReadCloser, res.Header)
	if err != nil {
		return nil, errors.Join(err, doc.Close())
	}
	doc.ReadCloser = whole
	return doc, nil
}

func (f *Fetcher) document(ctx context.Context, cancel context.CancelFunc, res *http.Response) (*Document, error) {
	if err := ofStatus(res.StatusCode); err != nil {
		return nil, err
	}
	if how := res.Header.Get("Content-Encoding"); how != "" && how != "identity" {
		return nil, &Error{Final, Encoded, fmt.Errorf("Content-Encoding %q", how)}
	}
	if res.ContentLength > int64(f.opt.MaxSize) {
		return nil, &Error{Final, TooLarge, fmt.Errorf("%d bytes declared", res.ContentLength)}
	}
	doc := &Document{Size: drive.ByteSize(res.ContentLength)}
	if at, err := http.ParseTime(res.Header.Get("Last-Modified")); err == nil {
		doc.Modified = drive.TimeOf(at)
	}
	doc.ReadCloser = newBody(ctx, cancel, res.Body, f.opt)
	return doc, nil
}

// cause says of an error what it is; when the caller's own context has ended it is that.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return classify(err)
}

// body bounds a document's length and the time between two of its bytes.
type body struct {
	explain func(error) error // tells the end of the caller's context from a time-out
	cancel  context.CancelFunc
	in      io.ReadCloser
	left    drive.ByteSize
	stall   time.Duration
	pace    time.Duration
	since   time.Time // when the present stretch of pace began,
	got     int64     // and what has come in it
	timer   *time.Timer
	stalled atomic.Bool
}

func newBody(ctx context.Context, cancel context.CancelFunc, in io.ReadCloser, opt Options) *body {
	b := &body{explain: func(err error) error { return cause(ctx, err) }, cancel: cancel, in: in, left: opt.MaxSize, stall: opt.Stall, pace: opt.Pace, since: time.Now()}
	b.timer = time.AfterFunc(opt.Stall, func() {
		b.stalled.Store(true)
		cancel()
	})
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if b.left -= drive.ByteSize(n); b.left < 0 {
		return 0, &Error{Final, TooLarge, nil}
	}
	if n > 0 {
		b.timer.Reset(b.stall)
	}
	if err == nil && b.slow(n) {
		return 0, &Error{Here, TimedOut, errSlow}
	}
	switch {
	case err == nil || err == io.EOF: //nolint:errorlint // a reader's own, never wrapped
		return n, err
	case b.stalled.Load():
		return n, &Error{Here, TimedOut, errStalled}
	}
	return n, b.explain(err)
}

// slow counts what has come, and reports whether it was too little for a whole stretch.
func (b *body) slow(n int) bool {
	b.got += int64(n)
	age := time.Since(b.since)
	if age < b.pace {
		return false
	}
	slow := float64(b.got) < minPace*age.Seconds()
	b.since, b.got = time.Now(), 0
	return slow
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.timer.Stop()
	err := b.in.Close()
	b.cancel()
	return err
}
