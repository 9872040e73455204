package server

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/head/problem"
)

// Options configure a Server. All fields but Routes and Listen have useful zero values.
type Options struct {
	Routes *http.ServeMux // patterns of all heads; New adds those of this package (see health.go)
	// Pages serves the GETs that Routes has no pattern for. Nil: they are 404.
	Pages  http.Handler
	Listen string // host:port; port 0 selects a free one

	TLSCert, TLSKey string // PEM files; both or none; read again by Reload

	// SubPath is the path of the base URL ("" or "/drive"). A request may contain it or not,
	// because some proxies remove it.
	SubPath        string
	Slashed        []string       // paths that end in a slash in foreign protocols: "/tus/"
	Loose          []string       // prefixes below which repeated and final slashes are accepted: "/dav/"
	TrustedProxies []netip.Prefix // proxies whose X-Forwarded-* headers and X-Request-Id are trusted
	CORSOrigins    []string       // "https://host[:port]" each, or "*"

	// Admin reports whether r comes from an administrator, who may read /metrics from anywhere.
	// Nil: nobody may.
	Admin  func(r *http.Request) bool
	Checks []Check // readiness checks of /readyz
	// TranslateError replaces a handler's error before it is rendered. Nil: no change.
	TranslateError func(err error) error

	// OnReady is called once when requests are served, with the URL without a final slash.
	OnReady func(url string)
	// OnStop is called once when no new requests are accepted, before running ones are awaited. It
	// ends requests that would run forever.
	OnStop func()

	Pace          Pace          // slowest accepted body and reader
	Linger        Linger        // bounds on draining rejected bodies
	HeaderTimeout time.Duration // for the header of a request; 10 s
	IdleTimeout   time.Duration // for a connection between requests; 2 min, longer than common proxies keep connections
	Drain         time.Duration // how long running requests may continue after the stop; 20 s

	Metrics *telemetry.Metrics // nil: a new registry
	Log     *slog.Logger       // nil: no log
}

// Server serves HTTP requests until it is stopped.
type Server struct {
	opt      Options
	log      *slog.Logger
	cert     certificate
	listener net.Listener
	url      string
	stopping atomic.Bool
	flights  flights
	ready    readiness
	metrics  metrics
}

// metrics are the metrics of this package. Their labels are a route's pattern, a method and a
// status, never a path.
type metrics struct {
	requests func(n float64, values ...string)
	seconds  func(v float64, values ...string)
	received func(n float64, values ...string)
	sent     func(n float64, values ...string)
	panics   func(n float64, values ...string)
	cut      func(n float64, values ...string)
}

// New returns a Server. It does no I/O. It panics if Routes already has a pattern of this package.
func New(opt Options) *Server {
	opt = withDefaults(opt)
	s := &Server{opt: opt, log: opt.Log, metrics: newMetrics(opt.Metrics)}
	s.cert.certFile, s.cert.keyFile = opt.TLSCert, opt.TLSKey
	s.ready.checks, s.ready.outages = opt.Checks, map[string]*telemetry.Outage{}
	opt.Metrics.Gauge("tls_certificate_expiry_timestamp_seconds", "Unix time when the certificate of --tls-cert expires; +Inf without one.", s.cert.end)
	opt.Metrics.Gauge("http_in_flight", "Requests in progress.", s.flights.count)
	s.addOwnRoutes(opt.Routes)
	return s
}

// withDefaults returns opt with its zero fields replaced; SubPath loses its trailing slash.
func withDefaults(opt Options) Options {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Metrics == nil {
		opt.Metrics = telemetry.NewMetrics()
	}
	opt.Pace = opt.Pace.withDefaults()
	opt.Linger = opt.Linger.withDefaults()
	setDefault(&opt.HeaderTimeout, 10*time.Second)
	setDefault(&opt.IdleTimeout, 2*time.Minute)
	setDefault(&opt.Drain, 20*time.Second)
	opt.SubPath = strings.TrimSuffix(opt.SubPath, "/")
	return opt
}

// setDefault sets field to value if it is zero.
func setDefault[T time.Duration | drive.ByteSize](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// newMetrics registers the server's metrics in m. It must be called once per m.
func newMetrics(m *telemetry.Metrics) metrics {
	return metrics{
		requests: m.Counter("http_requests_total", "Completed requests.", "route", "status"),
		seconds: m.Histogram("http_request_seconds", "Seconds from the header of the request to the end of the response.",
			[]float64{.001, .005, .025, .1, .5, 2.5, 10, 60, 600}, "route"),
		received: m.Counter("http_received_bytes_total", "Bytes of request bodies, as handlers read them."),
		sent:     m.Counter("http_sent_bytes_total", "Bytes of response bodies."),
		panics:   m.Counter("http_panics_total", "Handlers that panicked."),
		cut:      m.Counter("http_readers_cut_total", "Connections closed because the client did not read."),
	}
}

// ServeHTTP serves a request in the steps that the package comment lists. It is exported for tests
// and for callers with their own listener.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if retired(r) {
		panic(http.ErrAbortHandler) // the client may have meant it as a part of the previous body
	}
	assignRequestID(s.opt.TrustedProxies, w, r)
	findClient(s.opt.TrustedProxies, r)
	if r.Body == nil || r.Body == http.NoBody {
		s.serveLogged(w, r)
	} else {
		unread, guarded := s.guardBody(w, r)
		s.serveLogged(unread, guarded)
		unread.finish()
	}
	if r.Context().Err() != nil {
		retire(r) // the contexts of all later requests of this connection would be done from the start
	}
}

// serveLogged serves a request, then counts and logs it, even if the handler aborts the connection
// by a panic. Other panics become a response with status 500.
func (s *Server) serveLogged(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	rec := &recorder{ResponseWriter: w, translate: s.opt.TranslateError}
	asked := *r.URL // checkPath removes the sub-path
	defer func() {
		s.count(rec, r, start)
		s.logRequest(rec, r, asked.EscapedPath(), start)
	}()
	defer s.recoverPanic(rec, r)
	s.handle(rec, r)
}

// handle sets security headers, counts the request, answers CORS preflights, checks the path and
// calls the route. While the server stops it replies drive.Stopping and closes the connection.
func (s *Server) handle(rec *recorder, r *http.Request) {
	setSecurityHeaders(rec.Header(), r)
	if !s.begin(r) {
		rec.Header().Set("Connection", "close")
		problem.Write(rec, r, drive.Fail(drive.Stopping))
		return
	}
	defer s.flights.end()
	if cors(s.opt.CORSOrigins, rec, r) {
		return
	}
	if err := checkPath(r.URL, s.opt.SubPath, s.opt.Slashed, s.opt.Loose); err != nil {
		if !redirectSlash(rec, r) {
			problem.Write(rec, r, err)
		}
		return
	}
	s.route(rec, normalizeRanges(r))
}
