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

	"example.org/smartdrive/internal/base/drive"
)

// Options configures New. A zero field selects its default.
type Options struct {
	Hosts      func() []string                                                      // returns the allowed hosts, see allows; default: none
	Private    bool                                                                 // allows addresses of this network
	MaxSize    drive.ByteSize                                                       // of a document; default 256 MiB, at most 1 GiB
	Time       time.Duration                                                        // timeout of a whole document; default 10 min
	Stall      time.Duration                                                        // timeout between two reads; default 30 s
	RatePeriod time.Duration                                                        // period in which the average rate must reach minRate; default 1 min
	Dial       func(ctx context.Context, network, address string) (net.Conn, error) // set by tests; default: Dialer(Private)
}

// MaxDocument is the upper limit of MaxSize: the largest content stored as one part.
const MaxDocument = drive.GiB

// maxRedirects is the largest number of redirects followed.
const maxRedirects = 5

// minRate is the minimum average rate in bytes per second. Clients that upload to this server must
// keep the same rate.
const minRate = 4 << 10

// Fetcher fetches documents. It is safe for concurrent use.
type Fetcher struct {
	opt    Options
	client *http.Client
}

// New returns a Fetcher with defaults for the zero fields of opt. opt.MaxSize is limited to
// MaxDocument. It does no I/O.
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
	if opt.RatePeriod == 0 {
		opt.RatePeriod = time.Minute
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

// Close closes idle connections. Running fetches continue, and the Fetcher stays usable.
func (f *Fetcher) Close() { f.client.CloseIdleConnections() }

// Check returns an *Error of class Final if the address must not be fetched, or else nil. It does
// no I/O.
func (f *Fetcher) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return &Error{Final, NotAllowed, err}
	}
	return f.checkURL(u)
}

// checkURL returns a Final *Error with NotAllowed unless u is an http or https URL, without a user,
// of an allowed host and port.
func (f *Fetcher) checkURL(u *url.URL) error {
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if usual == "" || u.Hostname() == "" || u.User != nil {
		return &Error{Final, NotAllowed, errors.New("not an http or https address without a user")}
	}
	port := u.Port()
	if port == "" {
		port = usual
	}
	if !hostAllowed(f.opt.Hosts(), u.Hostname(), port, usual) {
		return &Error{Final, NotAllowed, fmt.Errorf("host %q is not on the list", u.Host)}
	}
	return nil
}

// redirect is the CheckRedirect hook: it returns an *Error for too many redirects or a host that is
// not allowed.
func (f *Fetcher) redirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return &Error{Final, Redirected, errors.New("too often")}
	}
	if err := f.checkURL(r.URL); err != nil {
		return &Error{Final, Redirected, err}
	}
	r.Header.Del("Referer")
	return nil
}

// Document is a document being fetched. The caller reads it to the end and closes it.
type Document struct {
	io.ReadCloser
	Size     drive.ByteSize // -1: unknown
	Modified drive.Time     // zero: unknown
}

// Get starts to fetch a document of the given kind. Errors of Get and of reading the document are
// *Error, or the cause of ctx if ctx has ended.
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
		return nil, classifyIn(ctx, err)
	}
	doc, err := f.document(ctx, cancel, res)
	if err != nil {
		cancel()
		_ = res.Body.Close() // discarded
		return nil, err
	}
	whole, err := kind.check(doc.ReadCloser, res.Header)
	if err != nil {
		return nil, errors.Join(err, doc.Close())
	}
	doc.ReadCloser = whole
	return doc, nil
}

// document returns the body of a response as a Document, which the caller must close. It returns an
// *Error for a status other than 200, an encoded body, or a declared size above the limit; the
// caller then closes the response and cancels.
func (f *Fetcher) document(ctx context.Context, cancel context.CancelFunc, res *http.Response) (*Document, error) {
	if err := statusError(res.StatusCode); err != nil {
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

// classifyIn returns the *Error for err. If ctx has ended, it returns the cause of ctx instead,
// which says why this process gave up.
func classifyIn(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return classify(err)
}

// body limits the length of a document, the time between two reads, and the rate.
type body struct {
	classify    func(error) error // maps a read error; tells the end of the caller's context from a timeout
	cancel      context.CancelFunc
	in          io.ReadCloser
	remaining   drive.ByteSize // bytes that the document may still have
	stall       time.Duration  // longest time without a byte
	ratePeriod  time.Duration
	periodStart time.Time // start of the current rate period
	periodBytes int64     // bytes read in this period
	timer       *time.Timer
	stalled     atomic.Bool // the timer has cancelled the request
}

// newBody wraps a response body and starts its stall timer, which cancels the request. Close of the
// result stops the timer and closes in.
func newBody(ctx context.Context, cancel context.CancelFunc, in io.ReadCloser, opt Options) *body {
	b := &body{classify: func(err error) error { return classifyIn(ctx, err) }, cancel: cancel, in: in, remaining: opt.MaxSize, stall: opt.Stall, ratePeriod: opt.RatePeriod, periodStart: time.Now()}
	b.timer = time.AfterFunc(opt.Stall, func() {
		b.stalled.Store(true)
		cancel()
	})
	return b
}

// Read reads the document. It returns an *Error with TooLarge above the size limit, with TimedOut
// if the server stalls or is too slow, and with what classify makes of other errors; io.EOF stays
// as it is.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if b.remaining -= drive.ByteSize(n); b.remaining < 0 {
		return 0, &Error{Final, TooLarge, nil}
	}
	if n > 0 {
		b.timer.Reset(b.stall)
	}
	if err == nil && b.tooSlow(n) {
		return 0, &Error{RetryHere, TimedOut, errSlow}
	}
	switch {
	case err == nil || err == io.EOF: //nolint:errorlint // readers return io.EOF unwrapped
		return n, err
	case b.stalled.Load():
		return n, &Error{RetryHere, TimedOut, errStalled}
	}
	return n, b.classify(err)
}

// tooSlow adds n bytes to the current rate period. At the end of the period it reports whether the
// rate was below minRate.
func (b *body) tooSlow(n int) bool {
	b.periodBytes += int64(n)
	age := time.Since(b.periodStart)
	if age < b.ratePeriod {
		return false
	}
	slow := float64(b.periodBytes) < minRate*age.Seconds()
	b.periodStart, b.periodBytes = time.Now(), 0
	return slow
}

// Close ends the timeout, closes the response and cancels the request. It returns the error of
// closing the response.
func (b *body) Close() error {
	b.timer.Stop()
	err := b.in.Close()
	b.cancel()
	return err
}
