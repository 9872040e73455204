package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
)

// maxHeaderBytes bounds the header of a request: a path of 4 KiB is 12 KiB if every byte is
// percent-encoded.
const maxHeaderBytes = 64 << 10

// Listen loads the certificate and opens the listener. Run does so too; call it earlier to fail
// early or to learn the port (see URL). A second call does nothing. Requests are served only by
// Run.
func (s *Server) Listen(ctx context.Context) error {
	if s.listener != nil {
		return nil
	}
	if err := s.Reload(); err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.opt.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on --listen %s: %w", s.opt.Listen, err)
	}
	s.listener, s.url = l, s.urlOf(l.Addr())
	return nil
}

// URL returns the URL of the server without a final slash; "" before Listen. If it listens on all
// addresses, the URL has the loopback address.
func (s *Server) URL() string { return s.url }

// urlOf returns the URL for a listener's address, with a loopback address in place of an
// unspecified one.
func (s *Server) urlOf(addr net.Addr) string {
	host, _, _ := net.SplitHostPort(s.opt.Listen)
	_, port, _ := net.SplitHostPort(addr.String()) // a TCP address always has a port
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	scheme := "http"
	if s.opt.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + s.opt.SubPath
}

// Run serves until ctx is done, then stops and returns nil after the last request has ended. It
// stops in this order: /readyz reports "stopping" and new requests are refused, no new connections
// are accepted, running requests may continue for at most Options.Drain, and the remaining ones are
// canceled. It fails if Listen does, or if serving ends before ctx.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	hs := s.httpServer(requests)
	served := make(chan error, 1)
	go func() { served <- s.serve(hs) }()
	if s.opt.OnReady != nil {
		s.opt.OnReady(s.url)
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", s.url, err)
	case <-ctx.Done():
	}
	s.stop(hs, cancel)
	<-served //nolint:errcheck // http.ErrServerClosed
	return nil
}

// httpServer returns an HTTP/1.1 server with the options' timeouts. requests is the base context of
// all requests. It does not listen.
func (s *Server) httpServer(requests context.Context) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           s,
		Protocols:         protocols,
		TLSConfig:         s.cert.config(),
		ReadHeaderTimeout: s.opt.HeaderTimeout,
		IdleTimeout:       s.opt.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // mostly scanners and failed TLS handshakes
	}
}

// serve accepts connections, with TLS if configured, until hs is closed. It returns the error of
// http.Server.Serve, which is never nil.
func (s *Server) serve(hs *http.Server) error {
	l := s.paced(s.listener)
	if s.opt.TLSCert != "" {
		l = tls.NewListener(l, hs.TLSConfig)
	}
	return hs.Serve(l)
}

// paced returns a listener whose connections are aborted if their peer does not read.
func (s *Server) paced(l net.Listener) net.Listener {
	return pacedListener{Listener: l, pace: s.opt.Pace, cut: func() { s.metrics.cut(1) }}
}

// stop ends serving and returns when no request is in flight; cancel cancels the requests that
// exceed Options.Drain. It also waits for handlers that ignore their context and a closed
// connection, because their dependencies are closed after Run returns.
func (s *Server) stop(hs *http.Server, cancel context.CancelFunc) {
	s.stopping.Store(true)
	if s.opt.OnStop != nil {
		s.opt.OnStop()
	}
	drain, done := context.WithTimeout(context.Background(), s.opt.Drain)
	defer done()
	if err := hs.Shutdown(drain); err != nil {
		s.log.Warn("requests did not end in time and were cut off", slog.Duration("drain", s.opt.Drain))
		cancel()
		if err := hs.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.log.Warn("some connections could not be closed", slog.Any("error", err))
		}
	}
	s.flights.wait()
}

// begin counts r as a request in flight. After true the caller must call flights.end. It returns
// false, with nothing counted, if the server is stopping; then only health checks are served.
func (s *Server) begin(r *http.Request) (ok bool) {
	if !s.flights.begin() {
		return false
	}
	if s.stopping.Load() && r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
		s.flights.end()
		return false
	}
	return true
}

// flights counts the requests in flight. After wait, begin returns false.
type flights struct {
	mu     sync.Mutex
	n      int
	closed bool
	zero   chan struct{} // created by wait; closed when n is 0
}

// begin counts a request; false, and nothing counted, after wait was called. After true the caller
// must call end once.
func (f *flights) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.n++
	return true
}

// end marks the end of a request that begin counted.
func (f *flights) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.closed {
		close(f.zero)
	}
}

// wait makes begin refuse new requests and waits until no request is in flight. Call it once.
func (f *flights) wait() {
	f.mu.Lock()
	f.closed, f.zero = true, make(chan struct{})
	if f.n == 0 {
		close(f.zero)
	}
	f.mu.Unlock()
	<-f.zero
}

// count returns the requests in flight.
func (f *flights) count() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return float64(f.n)
}
