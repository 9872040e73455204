// Package clienttest is a server in memory that speaks the native API well enough to test the
// client against, and misbehaves on demand: it loses replies, cuts bodies, answers as a proxy
// would, and goes away and comes back on the same port.
//
// It is not SmartDrive: no ledger, no users, nothing on disk.
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

	"smartdrive/test/process"
)

// Token is the only one that is let in; Password gets it.
const (
	Token    = "secret-token"
	Password = "secret-password"
)

// Fault is how a request is to go wrong.
type Fault int

// The faults.
const (
	None       Fault = iota
	LoseReply        // the request is carried out, the connection is cut instead of the reply
	CutBody          // the connection is cut in the middle of the request's body
	Refuse           // the connection is cut before the request is read
	CutReply         // the connection is cut after some of the body of the reply
	BadGateway       // a proxy's page, the request is not carried out
	TimeOut          // a proxy's page, the request is carried out
	TooLarge         // a proxy's page
	Stopping         // SmartDrive's own 503, with Retry-After
)

// Server is the server.
type Server struct {
	addr string
	http *http.Server
	done chan struct{}

	mu       sync.Mutex
	nodes    map[string]*node // by path
	uploads  map[string]*upload
	requests []string // method and path
	faults   func(r *http.Request) Fault
	offer    map[string][]byte
	links    []map[string]any // shares and collect links, the newest first
	exports  []*export
	batches  map[string]map[int]line // by key, then item; nil: the server takes none
	items    []string                // ops of what came in batches
	owed     int64                   // bytes that were deleted for good
	verbose  bool                    // preferences for short answers mean nothing
	refuse   func(path string) (status int, code string)

	operations []*operation

	schedules []map[string]any

	elsewhere func(content []byte) (url string) // nil: nowhere
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{addr: process.Address(t), nodes: map[string]*node{}, uploads: map[string]*upload{}, offer: map[string][]byte{}}
	s.nodes["/"] = &node{ID: "root", Path: "/", Type: "folder"}
	s.Start(t)
	t.Cleanup(s.Stop)
	return s
}

// URL returns the address.
func (s *Server) URL() string { return "http://" + s.addr }

// Inject makes the server ask faults about every request that comes from now on; nil ends it.
func (s *Server) Inject(faults func(r *http.Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

// Start opens the port, the one it had before if it was open already.
func (s *Server) Start(t testing.TB) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", s.addr)
	for tries := 1; errors.Is(err, syscall.EADDRINUSE) && tries < 1000; tries++ {
		<-time.After(10 * time.Millisecond) // somebody's connection goes out from that port, and ends
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

// Stop closes the port and cuts every connection, as a crash does.
func (s *Server) Stop() {
	_ = s.http.Close()
	<-s.done
}

// Requests returns how many requests of a method came whose path holds part.
func (s *Server) Requests(match func(method, path string) bool) int {
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

// ServeHTTP implements http.Handler.
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
		page(w, http.StatusBadGateway)
		return
	case TooLarge:
		page(w, http.StatusRequestEntityTooLarge)
		return
	case Stopping:
		w.Header().Set("Retry-After", "0")
		fail(w, http.StatusServiceUnavailable, "stopping", nil)
		return
	case LoseReply, TimeOut:
		s.serve(&deaf{w.Header().Clone()}, r)
		if fault == TimeOut {
			page(w, http.StatusGatewayTimeout)
			return
		}
		panic(http.ErrAbortHandler)
	case CutReply:
		s.serve(&torn{w, 70_000}, r)
	default:
		s.serve(w, r)
	}
}

// torn is a ResponseWriter that is cut off after some bytes.
type torn struct {
	http.ResponseWriter
	left int
}

func (c *torn) Write(b []byte) (int, error) {
	if c.left < len(b) {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// deaf is a ResponseWriter whose reply nobody gets.
type deaf struct{ h http.Header }

func (d *deaf) Header() http.Header         { return d.h }
func (d *deaf) Write(b []byte) (int, error) { return len(b), nil }
func (d *deaf) WriteHeader(int)             {}

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
		fail(w, http.StatusUnauthorized, "unauthenticated", nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	mux.ServeHTTP(w, r)
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name, Password string }
	decode(r, &in)
	if in.Password != Password {
		fail(w, http.StatusUnauthorized, "unauthenticated", nil)
		return
	}
	reply(w, http.StatusCreated, map[string]any{"token": Token, "expires_at": "2030-01-01T00:00:00.000Z"})
}

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

func page(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Server", "nginx/1.26.0")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<html><h1>%d %s</h1></html>", status, http.StatusText(status))
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // to memory or a client that has gone
}

func fail(w http.ResponseWriter, status int, code string, args map[string]any) {
	doc := map[string]any{"type": "/problems/" + code, "status": status, "code": code, "title": code, "detail": "It is " + code + "."}
	maps.Copy(doc, args)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) // as reply
}

func newID() string { return rand.Text() }
