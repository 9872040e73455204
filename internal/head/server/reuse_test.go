package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// earlyRoutes are a handler that answers in full duplex and leaves its body, and one that answers
// 503 when its context is done, as every use case does.
func earlyRoutes(mux *http.ServeMux) *atomic.Int64 {
	var alive atomic.Int64
	mux.HandleFunc("PUT /early", func(w http.ResponseWriter, r *http.Request) {
		Duplex(w)
		_, _ = io.CopyN(io.Discard, r.Body, 1)
		fmt.Fprint(w, "enough")
	})
	mux.HandleFunc("GET /alive", func(w http.ResponseWriter, r *http.Request) {
		alive.Add(1)
		if r.Context().Err() != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return &alive
}

// A request that ends before its body leaves a connection on which others are answered.
func TestEarlyResponseKeepsConnection(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 1 << 10, 200 << 10, 300 << 10} {
		synctest.Test(t, func(t *testing.T) {
			l, mux := newPipes(), http.NewServeMux()
			earlyRoutes(mux)
			s := New(Options{Routes: mux})
			hs := s.httpServer(t.Context())
			hs.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.ServeHTTP(w, r)
				synctest.Wait() // package http sees what this has left
			})
			go hs.Serve(s.paced(l)) //nolint:errcheck // closed below
			conn := l.dial()
			in := bufio.NewReader(conn)
			go fmt.Fprintf(conn, "PUT /early HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("z", size))
			if resp := next(t, in); resp.StatusCode != http.StatusOK || resp.Close {
				t.Fatalf("a body of %d bytes: status %d, close %v", size, resp.StatusCode, resp.Close)
			}
			synctest.Wait()
			fmt.Fprint(conn, "GET /alive HTTP/1.1\r\nHost: x\r\n\r\n")
			if resp := next(t, in); resp.StatusCode != http.StatusOK {
				t.Errorf("after a body of %d bytes the next request is answered %d", size, resp.StatusCode)
			}
			conn.Close()
			if err := hs.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The rest of a body that comes after the server has stopped waiting for it is no request, whatever
// it looks like.
func TestLateBodyBytesAreNoRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rest = "GET /alive HTTP/1.1\r\nHost: x\r\n\r\n"
		l, mux := newPipes(), http.NewServeMux()
		alive := earlyRoutes(mux)
		s := New(Options{Routes: mux})
		hs := s.httpServer(t.Context())
		go hs.Serve(s.paced(l)) //nolint:errcheck // closed below
		conn := l.dial()
		in := bufio.NewReader(conn)
		fmt.Fprintf(conn, "PUT /early HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nx", 1+len(rest))
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "enough" {
			t.Fatalf("the answer is %q: %v", body, err)
		}
		<-time.After(2 * s.opt.Linger.Quiet)
		_, err = io.WriteString(conn, rest)
		synctest.Wait()
		if err == nil || alive.Load() > 0 {
			t.Errorf("%d requests were read from a body, and its rest was taken with %v", alive.Load(), err)
		}
		if err := hs.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Of two pipelined requests the first ends its connection. The second gets no response rather than
// a wrong one.
func TestRetiredConnectionIsNotServed(t *testing.T) {
	t.Parallel()
	var answered atomic.Int64
	s := running(t, Options{}, func(mux *http.ServeMux) {
		mux.HandleFunc("GET /last", func(_ http.ResponseWriter, r *http.Request) {
			answered.Add(1)
			retire(r)
		})
	})
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, strings.Repeat("GET /last HTTP/1.1\r\nHost: x\r\n\r\n", 2))
	in := bufio.NewReader(conn)
	if resp := next(t, in); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	if _, err := in.ReadByte(); err != io.EOF || answered.Load() != 1 {
		t.Errorf("%d requests were answered, and the connection ends with %v", answered.Load(), err)
	}
}

// next reads a response and its body.
func next(t *testing.T, in *bufio.Reader) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp
}
