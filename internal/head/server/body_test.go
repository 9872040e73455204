package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
)

// refuseQuota is a handler that answers 507 and reads nothing.
func refuseQuota(w http.ResponseWriter, r *http.Request) {
	problem.Write(w, r, drive.Fail(drive.Quota, "needed", 2<<20, "available", 0))
}

func readAll(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	fmt.Fprint(w, n)
}

func bodyRoutes(mux *http.ServeMux) {
	mux.HandleFunc("PUT /refuse", refuseQuota)
	mux.HandleFunc("PUT /read", readAll)
	mux.HandleFunc("PUT /some", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 1000)
		refuseQuota(w, r)
	})
}

// unhurried waits for clients that are slow because the machine is busy. The bound of discarded
// bytes is unchanged.
var unhurried = Linger{Time: time.Hour, Quiet: time.Hour}

// A client that sends everything before it reads anything, as browsers do, must find the refusal
// (scenario N).
func TestScenarioNARefusedBodyOf50MiBStillGetsItsAnswer(t *testing.T) {
	t.Parallel()
	s := running(t, Options{Linger: unhurried}, bodyRoutes)
	const size = 50 << 20
	for name, head := range map[string]string{
		"length":                 "PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 52428800\r\n\r\n",
		"chunked":                "PUT /refuse HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3200000\r\n",
		"partly read":            "PUT /some HTTP/1.1\r\nHost: x\r\nContent-Length: 52428800\r\n\r\n",
		"did not wait for 100":   "PUT /refuse HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 52428800\r\n\r\n",
		"no such address":        "PUT /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 52428800\r\n\r\n",
		"a name that is refused": "PUT /a//b HTTP/1.1\r\nHost: x\r\nContent-Length: 52428800\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", s.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, head); err != nil {
				t.Fatal(err)
			}
			if n, err := io.CopyN(conn, zeros{}, size); err != nil {
				t.Fatalf("the connection broke after %d of %d bytes: %v", n, size, err)
			}
			if strings.Contains(head, "chunked") {
				if _, err := io.WriteString(conn, "\r\n0\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
			}
			resp := readResponse(t, conn, http.MethodPut)
			if resp.StatusCode < 400 {
				t.Fatalf("status %d", resp.StatusCode)
			}
			problemOf(t, resp)
			if !resp.Close {
				t.Error("the answer does not say that the connection closes")
			}
		})
	}
}

// A client that reads while it sends gets the answer before it has sent more than a little.
func TestRefusalPrecedesBody(t *testing.T) {
	t.Parallel()
	s := running(t, Options{}, bodyRoutes)
	resp := exchange(t, s, "PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 52428800\r\n\r\n")
	if doc := problemOf(t, resp); doc["code"] != "quota" {
		t.Errorf("got %v", doc)
	}
}

// A chunked body is refused in the middle, and the client may continue to send.
func TestChunkedBodyIsRefusedMidway(t *testing.T) {
	t.Parallel()
	s := running(t, Options{Linger: unhurried}, bodyRoutes)
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "PUT /refuse HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3200000\r\n")
	if _, err := io.CopyN(conn, zeros{}, 300<<10); err != nil {
		t.Fatal(err)
	}
	if resp := readResponse(t, conn, http.MethodPut); resp.StatusCode != http.StatusInsufficientStorage || !resp.Close {
		t.Fatalf("status %d, close %v", resp.StatusCode, resp.Close)
	}
	if n, err := io.CopyN(conn, zeros{}, 50<<20-300<<10); err != nil {
		t.Errorf("the connection broke after %d more bytes: %v", n, err)
	}
}

// A client that sends Expect: 100-continue gets the refusal instead of 100.
func TestRefusalReplaces100Continue(t *testing.T) {
	t.Parallel()
	s := running(t, Options{}, bodyRoutes)
	resp := exchange(t, s, "PUT /refuse HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
	if resp.StatusCode != http.StatusInsufficientStorage || !resp.Close {
		t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
	}
}

func TestARefusedSmallBodyKeepsTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // for the answer waits a second, no more
		hs, conn := piped(t)
		in := bufio.NewReader(conn)
		for i := range 3 {
			const size = 200 << 10
			fmt.Fprintf(conn, "PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
			if _, err := io.CopyN(conn, zeros{}, size); err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Close || resp.StatusCode != http.StatusInsufficientStorage {
				t.Fatalf("request %d: status %d, close %v, err %v", i, resp.StatusCode, resp.Close, err)
			}
		}
		conn.Close()
		if err := hs.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// The discarded bytes of a refused body are bounded, and the response is sent first all the same.
func TestDiscardedBodyIsBounded(t *testing.T) {
	t.Parallel()
	s := running(t, Options{Linger: Linger{Bytes: drive.MiB}}, bodyRoutes)
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 1<<40)
	if resp := readResponse(t, conn, http.MethodPut); resp.StatusCode != http.StatusInsufficientStorage {
		t.Fatalf("status %d", resp.StatusCode)
	}
	n, err := io.CopyN(conn, zeros{}, 1<<32)
	if err == nil {
		t.Errorf("the server took %d bytes of a body that it had refused", n)
	}
}

// pipes is a listener for one connection in memory, so that a test runs on synctest's clock.
type pipes struct {
	conns chan net.Conn
	once  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.once:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.once); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// piped is a server on synctest's clock, and a connection to it. Both are to be closed.
func piped(t *testing.T) (*http.Server, net.Conn) {
	t.Helper()
	l := newPipes()
	mux := http.NewServeMux()
	bodyRoutes(mux)
	hs := New(Options{Routes: mux}).httpServer(t.Context())
	go hs.Serve(l)
	return hs, l.dial()
}

// drip sends a body of size bytes, piece bytes each period, and returns the response and how long
// it took.
func drip(t *testing.T, size, piece int, period time.Duration) (resp *http.Response, took time.Duration) {
	t.Helper()
	hs, conn := piped(t)
	start := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fmt.Fprintf(conn, "PUT /read HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", size)
		for sent := 0; sent < size; sent += piece {
			if _, err := conn.Write(bytes.Repeat([]byte{1}, min(piece, size-sent))); err != nil {
				return
			}
			<-time.After(period) // synctest's clock: takes no time
		}
	}()
	resp = readResponse(t, conn, http.MethodPut)
	took = time.Since(start)
	conn.Close()
	<-done
	if err := hs.Close(); err != nil {
		t.Fatal(err)
	}
	return resp, took
}

func TestBodyNeeds4KiBPerSecondOver60s(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		size, piece int
		period      time.Duration
		status      int
		atMost      time.Duration
	}{
		{"just fast enough", 4 << 20, 4200, time.Second, 200, time.Hour},
		{"just too slow", 4 << 20, 4000, time.Second, 408, 61 * time.Second},
		{"one byte a second", 1000, 1, time.Second, 408, 61 * time.Second},
		{"a slow body that ends within the window", 100, 2, time.Second, 200, 51 * time.Second},
		{"bursts with 50 s between them", 2 << 20, 256 << 10, 50 * time.Second, 200, time.Hour},
		{"a burst, then nothing", 1 << 20, 1 << 19, time.Hour, 408, 121 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				resp, took := drip(t, tt.size, tt.piece, tt.period)
				if resp.StatusCode != tt.status || took > tt.atMost {
					t.Fatalf("status %d after %v, want %d within %v", resp.StatusCode, took, tt.status, tt.atMost)
				}
				if tt.status == 408 {
					if doc := problemOf(t, resp); doc["code"] != "too-slow" || doc["limit"] != float64(240<<10) {
						t.Errorf("problem %v", doc)
					}
				}
			})
		})
	}
}

// A handler must be able to give a body up that it waits for: a second PUT of a part takes the
// place of the first.
func TestClosingABodyEndsARead(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := running(t, Options{}, func(mux *http.ServeMux) {
		mux.HandleFunc("PUT /x", func(w http.ResponseWriter, r *http.Request) {
			first := make([]byte, 1)
			if _, err := io.ReadFull(r.Body, first); err != nil {
				t.Error(err)
			}
			go r.Body.Close()
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
			problem.Write(w, r, drive.Fail(drive.WrongState))
		})
	})
	resp := exchange(t, s, "PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx")
	if err := <-ended; !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("Read returned %v", err)
	}
	if resp.StatusCode != http.StatusConflict {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}
