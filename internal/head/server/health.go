package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/head/problem"
)

// Check is one thing that must work for the server to be of use: the database, the disk.
type Check struct {
	Name string // shown to anybody: "database"
	Func func(ctx context.Context) error
	Soft bool // its failure is shown, and the server is ready all the same
}

const (
	routeHealth = "GET /healthz"
	routeReady  = "GET /readyz"

	checkTime   = 2 * time.Second // a check that takes longer has failed
	checkMemory = time.Second     // so often at most are they made, however often /readyz is asked for
)

func (s *Server) addOwnRoutes(mux *http.ServeMux) {
	mux.HandleFunc(routeHealth, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n")) // fails only when the asker is gone
	})
	mux.HandleFunc(routeReady, s.serveReady)
	figures := s.opt.Metrics.Handler()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !local(r) && (s.opt.Admin == nil || !s.opt.Admin(r)) {
			problem.Write(w, r, drive.Fail(drive.Forbidden))
			return
		}
		figures.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /problems", problem.ServePage)
	mux.HandleFunc("GET /problems/{code}", problem.ServePage)
}

// local reports whether r was sent by a program on this machine. A proxy on this machine that
// nobody declared as trusted would make the whole world local, so a request that shows signs of one
// is not.
func local(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "Via", "X-Real-Ip"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	named := strings.EqualFold(host, "localhost") || addrOf(host).IsLoopback() // not by a name that was bent to 127.0.0.1
	client := addrOf(r.RemoteAddr)
	return named && client.IsLoopback() && r.Header.Get("X-Forwarded-For") == ""
}

// serveReady answers 200 or 503 with {"checks": {name: "ok" | "failing" | "stopping"}}; why one
// fails is in the log.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	checks, ok := s.ready.results(r.Context(), s.log)
	if s.stopping.Load() {
		checks, ok = map[string]string{"server": "stopping"}, false
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"checks": checks}) // fails only when the asker is gone
}

// readiness remembers the last results, so that asking costs nothing.
type readiness struct {
	checks []Check
	mu     sync.Mutex
	at     time.Time
	last   map[string]string
	ok     bool
	// outages are those of the checks, by name: each is logged at its beginning and its end.
	outages map[string]*telemetry.Outage
}

func (c *readiness) results(ctx context.Context, log *slog.Logger) (map[string]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && time.Since(c.at) < checkMemory {
		return c.last, c.ok
	}
	// An asker who goes away must not make the checks fail for the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
	defer cancel()
	results, ok := map[string]string{"server": "ok"}, true
	for i, err := range c.ask(ctx) {
		check := c.checks[i]
		results[check.Name] = "ok"
		if err != nil {
			results[check.Name], ok = "failing", ok && check.Soft
		}
		if c.outages[check.Name] == nil {
			c.outages[check.Name] = &telemetry.Outage{}
		}
		c.outages[check.Name].Note(context.WithoutCancel(ctx), log, "a check of readiness fails", err, slog.String("check", check.Name))
	}
	c.last, c.ok, c.at = results, ok, time.Now()
	return results, ok
}

// ask makes all checks at the same time: one that takes all of it must not make others fail.
func (c *readiness) ask(ctx context.Context) []error {
	errs := make([]error, len(c.checks))
	var asked sync.WaitGroup
	for i, check := range c.checks {
		asked.Go(func() { errs[i] = check.Func(ctx) })
	}
	asked.Wait()
	return errs
}
