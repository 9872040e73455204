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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/head/problem"
)

// Check is a condition for the readiness of the server, such as a reachable database. Func returns
// nil if the condition holds. Its context ends after checkTimeout.
type Check struct {
	Name string // public: "database"
	Func func(ctx context.Context) error
	Soft bool // a failure is shown, but the server stays ready
}

const (
	// routeHealth replies while the process runs; routeReady, only while the checks succeed.
	routeHealth = "GET /healthz"
	routeReady  = "GET /readyz"

	checkTimeout = 2 * time.Second // a check that takes longer has failed
	checkCache   = time.Second     // results are cached this long, however often /readyz is requested
)

// addOwnRoutes registers health, readiness, metrics and problem pages. Metrics are refused with
// drive.Forbidden unless the request is local or Options.Admin accepts it.
func (s *Server) addOwnRoutes(mux *http.ServeMux) {
	mux.HandleFunc(routeHealth, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n")) // fails only if the client is disconnected
	})
	mux.HandleFunc(routeReady, s.serveReady)
	metrics := s.opt.Metrics.Handler()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !local(r) && (s.opt.Admin == nil || !s.opt.Admin(r)) {
			problem.Write(w, r, drive.Fail(drive.Forbidden))
			return
		}
		metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /problems", problem.ServePage)
	mux.HandleFunc("GET /problems/{code}", problem.ServePage)
}

// local reports whether a program on this machine sent r. A proxy on this machine that is not among
// the trusted proxies would make every request look local, so a request with headers of a proxy, or
// for a host other than localhost, is not local.
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
	named := strings.EqualFold(host, "localhost") || addrOf(host).IsLoopback() // rejects other names that resolve to 127.0.0.1
	client := addrOf(r.RemoteAddr)
	return named && client.IsLoopback() && r.Header.Get("X-Forwarded-For") == ""
}

// serveReady answers 200 if the server is ready, else 503, with {"checks": {name: "ok" | "failing"
// | "stopping"}}. A failed soft check is shown, but does not make it 503. The reason of a failure
// is only in the log.
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
	_ = json.NewEncoder(w).Encode(map[string]any{"checks": checks}) // fails only if the client is disconnected
}

// readiness runs the checks and caches their results for checkCache.
type readiness struct {
	checks []Check
	mu     sync.Mutex
	at     time.Time
	last   map[string]string
	ok     bool
	// outages log the beginning and end of each check's failure, by name.
	outages map[string]*telemetry.Outage
}

// results returns the state of each check by name, "ok" or "failing", and whether the server is
// ready. It runs the checks unless the cached results are recent, and logs the beginning and end of
// each failure. The caller must not change the map.
func (c *readiness) results(ctx context.Context, log *slog.Logger) (map[string]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && time.Since(c.at) < checkCache {
		return c.last, c.ok
	}
	// A client that disconnects must not make the checks fail for others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
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
		c.outages[check.Name].Record(context.WithoutCancel(ctx), log, "a readiness check fails", err, slog.String("check", check.Name))
	}
	c.last, c.ok, c.at = results, ok, time.Now()
	return results, ok
}

// ask runs all checks concurrently, so that a slow one does not make others time out. It returns
// their errors by the index of the check.
func (c *readiness) ask(ctx context.Context) []error {
	errs := make([]error, len(c.checks))
	var asked sync.WaitGroup
	for i, check := range c.checks {
		asked.Go(func() { errs[i] = check.Func(ctx) })
	}
	asked.Wait()
	return errs
}
