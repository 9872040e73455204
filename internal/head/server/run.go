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

// maxHeaderBytes bounds the header of a request: a path of 4 KiB is 12 KiB when each byte is
// percent-encoded.
const maxHeaderBytes = 64 << 10

// Listen takes the address. Run does it too; a caller that is to fail early, or to know the port,
// calls it first.
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

// URL returns where the server can be reached, without a final slash; empty before Listen. An
// address that means "all of them" is shown as the loopback one.
func (s *Server) URL() string { return s.url }

func (s *Server) urlOf(addr net.Addr) string {
	host, _, _ := net.SplitHostPort(s.opt.Listen)
	_, port, _ := net.SplitHostPort(addr.String()) // a TCP address always has one
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

// Run serves until ctx is done, and returns when the last request has been answered. It stops in
// this order: not ready, no new connections, running requests end by themselves (for Drain at
// most), the rest is cancelled.
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
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // scanners and broken TLS, mostly
	}
}

func (s *Server) serve(hs *http.Server) error {
	l := s.paced(s.listener)
	if s.opt.TLSCert != "" {
		l = tls.NewListener(l, hs.TLSConfig)
	}
	return hs.Serve(l)
}

// paced gives on the connections of l, which end when their peer does not read.
func (s *Server) paced(l net.Listener) net.Listener {
	return pacedListener{Listener: l, pace: s.opt.Pace, cut: func() { s.metrics.cut(1) }}
}

// stop ends the serving. Handlers that ignore both their context and a closed connection are waited
// for all the same: what they use is taken away after Run returns.
func (s *Server) stop(hs *http.Server, cancel context.CancelFunc) {
	s.stopping.Store(true)
	if s.opt.OnStop != nil {
		s.opt.OnStop()
	}
	drain, done := context.WithTimeout(context.Background(), s.opt.Drain)
	defer done()
	if err := hs.Shutdown(drain); err != nil {
		s.log.Warn("cut off requests that did not end in time", slog.Duration("drain", s.opt.Drain))
		cancel()
		if err := hs.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.log.Warn("close connections", slog.Any("error", err))
		}
	}
	s.flights.wait()
}

// begin counts a request that is answered until flights.end; not ok: the server is being stopped.
// Then only those are answered that ask how we are.
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

// flights counts the requests that are being answered. After wait none begins.
type flights struct {
	mu     sync.Mutex
	n      int
	closed bool
	zero   chan struct{} // made by wait
}

func (f *flights) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.n++
	return true
}

func (f *flights) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.closed {
		close(f.zero)
	}
}

func (f *flights) wait() {
	f.mu.Lock()
	f.closed, f.zero = true, make(chan struct{})
	if f.n == 0 {
		close(f.zero)
	}
	f.mu.Unlock()
	<-f.zero
}

func (f *flights) count() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return float64(f.n)
}
