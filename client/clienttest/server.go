// Package clienttest is an in-memory server for testing the client. It implements enough of the
// native API and injects faults: lost replies, cut bodies, replies of a proxy, restarts on the same
// port.
//
// It is not SmartDrive: it has no ledger and no users, and stores nothing on disk.
package clienttest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/smartdrive/test/process"
)

// Token is the only accepted token. A login with Password returns it.
const (
	Token    = "secret-token"
	Password = "secret-password"
)

// Fault is a way for a request to fail.
type Fault int

// The faults.
const (
	None       Fault = iota
	LoseReply        // executes the request and closes the connection without a reply
	CutBody          // closes the connection in the middle of the request body
	Refuse           // closes the connection before reading the request
	CutReply         // closes the connection after 70,000 bytes of the reply
	BadGateway       // replies with a proxy's 502 page without executing the request
	TimeOut          // executes the request and replies with a proxy's 504 page
	TooLarge         // replies with a proxy's 413 page without executing the request
	Stopping         // replies 503 with code stopping and Retry-After: 0
)

// Server is an HTTP server for tests. Its methods may be called concurrently with requests.
type Server struct {
	addr string
	http *http.Server
	done chan struct{}

	mu        sync.Mutex
	nodes     map[string]*node // by path
	uploads   map[string]*upload
	requests  []string // method and path
	faults    func(r *http.Request) Fault
	claimable map[string][]byte
	links     []map[string]any // shares and collect links, newest first
	exports   []*export
	batches   map[string]map[int]line // idempotency key -> item -> answer; nil: batches are not supported
	items     []string                // operations of all batch items
	owed      int64                   // permanently deleted bytes
	verbose   bool                    // ignore "Prefer: return=minimal"
	refuse    func(path string) (status int, code string)

	operations []*operation

	schedules []map[string]any

	storeURL func(content []byte) (url string) // returns the store's URL of content; nil: no redirects
}

// New starts a server that stops at the end of the test.
func New(t testing.TB) *Server {
	s := &Server{addr: process.Address(t), nodes: map[string]*node{}, uploads: map[string]*upload{}, claimable: map[string][]byte{}}
	s.nodes["/"] = &node{ID: "root", Path: "/", Type: "folder"}
	s.Start(t)
	t.Cleanup(s.Stop)
	return s
}

// URL returns the server's base URL.
func (s *Server) URL() string { return "http://" + s.addr }

// Inject makes the server call faults for each later request and fail as it returns; nil stops
// this.
func (s *Server) Inject(faults func(r *http.Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

// Start listens on the server's port and serves in the background until Stop; the content of the
// tree is kept. It fails the test if the port stays in use.
func (s *Server) Start(t testing.TB) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", s.addr)
	for tries := 1; errors.Is(err, syscall.EADDRINUSE) && tries < 1000; tries++ {
		<-time.After(10 * time.Millisecond) // the port is in use by another outgoing connection
		l, err = lc.Listen(t.Context(), "tcp", s.addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.done = make(chan struct{})
	s.http = &http.Server{Handler: s}
	go func(h *http.Server, done chan struct{}) {
		defer close(done)
		_ = h.Serve(l) // ends with Stop
	}(s.http, s.done)
}

// Stop closes the port and all connections, as a crash does.
func (s *Server) Stop() {
	_ = s.http.Close()
	<-s.done
}

// CountRequests returns the number of received requests that match accepts.
func (s *Server) CountRequests(match func(method, path string) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		var method, path string
		fmt.Sscan(r, &method, &path)
		if match(method, path) {
			n++
		}
	}
	return n
}

// ServeHTTP records the request and serves it, with the fault that the test's function chooses.
// Refuse, CutBody and LoseReply abort the connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.EscapedPath())
	faults := s.faults
	s.mu.Unlock()
	fault := None
	if faults != nil {
		fault = faults(r)
	}
	switch fault {
	case Refuse:
		panic(http.ErrAbortHandler)
	case CutBody:
		_, _ = io.CopyN(io.Discard, r.Body, max(1, r.ContentLength/2))
		panic(http.ErrAbortHandler)
	case BadGateway:
		replyProxyPage(w, http.StatusBadGateway)
		return
	case TooLarge:
		replyProxyPage(w, http.StatusRequestEntityTooLarge)
		return
	case Stopping:
		w.Header().Set("Retry-After", "0")
		replyProblem(w, http.StatusServiceUnavailable, "stopping", nil)
		return
	case LoseReply, TimeOut:
		s.serve(&discardWriter{w.Header().Clone()}, r)
		if fault == TimeOut {
			replyProxyPage(w, http.StatusGatewayTimeout)
			return
		}
		panic(http.ErrAbortHandler)
	case CutReply:
		s.serve(&truncatedWriter{w, 70_000}, r)
	default:
		s.serve(w, r)
	}
}

// truncatedWriter is a ResponseWriter that closes the connection after limit bytes.
type truncatedWriter struct {
	http.ResponseWriter
	limit int
}

// Write passes b on until limit bytes are written in total. The call that would exceed the limit
// writes the rest and aborts the connection by a panic with http.ErrAbortHandler.
func (t *truncatedWriter) Write(b []byte) (int, error) {
	if t.limit < len(b) {
		_, _ = t.ResponseWriter.Write(b[:t.limit])
		_ = http.NewResponseController(t.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	t.limit -= len(b)
	return t.ResponseWriter.Write(b)
}

// discardWriter is a ResponseWriter that discards the reply.
type discardWriter struct{ h http.Header }

// Header returns headers that are not sent.
func (d *discardWriter) Header() http.Header { return d.h }

// Write discards b.
func (d *discardWriter) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader discards the status.
func (d *discardWriter) WriteHeader(int) {}

// serve executes a request, one at a time, after checking its token.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/sessions", s.login)
	mux.HandleFunc("GET /api/v1/me", s.me)
	s.nodeRoutes(mux)
	s.uploadRoutes(mux)
	s.linkRoutes(mux)
	s.exportRoutes(mux)
	s.operationRoutes(mux)
	s.batchRoutes(mux)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if r.Header.Get("Authorization") != "Bearer "+Token && r.URL.Path != "/api/v1/sessions" {
		replyProblem(w, http.StatusUnauthorized, "unauthenticated", nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	mux.ServeHTTP(w, r)
}

// login replies with Token for the password Password, else unauthenticated.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name, Password string }
	decode(r, &in)
	if in.Password != Password {
		replyProblem(w, http.StatusUnauthorized, "unauthenticated", nil)
		return
	}
	reply(w, http.StatusCreated, map[string]any{"token": Token, "expires_at": "2030-01-01T00:00:00.000Z"})
}

// me replies with the user ann and the bytes used.
func (s *Server) me(w http.ResponseWriter, _ *http.Request) {
	var used int64
	for _, n := range s.nodes {
		used += n.Size
	}
	reply(w, http.StatusOK, map[string]any{
		"user":    map[string]any{"id": "u1", "name": "ann", "admin": false},
		"account": map[string]any{"id": "a1"}, "usage": map[string]any{"total": 1 << 30, "used": used, "owed": s.owed},
	})
}

// replyProxyPage writes an HTML error page as nginx does.
func replyProxyPage(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Server", "nginx/1.26.0")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<html><h1>%d %s</h1></html>", status, http.StatusText(status))
}

// reply writes the status and v as JSON.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // to memory or a client that has gone
}

// replyProblem writes the status and a problem document; args are its further members.
func replyProblem(w http.ResponseWriter, status int, code string, args map[string]any) {
	doc := map[string]any{"type": "/problems/" + code, "status": status, "code": code, "title": code, "detail": "It is " + code + "."}
	maps.Copy(doc, args)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) // as reply
}

// newID returns a random id.
func newID() string { return rand.Text() }
