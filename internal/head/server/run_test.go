package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestAddressInUseErrorNamesFlag(t *testing.T) {
	t.Parallel()
	first := running(t, Options{}, nil)
	addr := first.listener.Addr().String()
	err := New(Options{Routes: http.NewServeMux(), Listen: addr}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--listen "+addr) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
}

func TestReadyIsSaidWhenRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	urls := make(chan string, 1)
	mux := http.NewServeMux()
	s := New(Options{Routes: mux, Listen: ":0", OnReady: func(url string) { urls <- url }})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	url := <-urls
	if !strings.HasPrefix(url, "http://127.0.0.1:") || strings.HasSuffix(url, "/") || strings.HasSuffix(url, ":0") {
		t.Errorf("ready at %q", url)
	}
	if resp := get(t, s, "/healthz"); resp.StatusCode != 200 {
		t.Errorf("healthz: %d", resp.StatusCode)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// stopping is a server that is stopped while it serves a request.
type stopping struct {
	*Server
	stop func()
	told chan struct{} // closed when the client has its answer, or knows that there is none
	over chan struct{} // closed when Run has returned
}

// stopped starts a request, stops the server while it runs, and returns what Run and the client
// saw.
func stopped(t *testing.T, drain time.Duration, handler func(w http.ResponseWriter, r *http.Request, s *stopping)) (*http.Response, error) {
	t.Helper()
	mux := http.NewServeMux()
	s := New(Options{Routes: mux, Listen: "127.0.0.1:0", Drain: drain})
	ctx, stop := context.WithCancel(t.Context())
	told, over := make(chan struct{}), make(chan struct{})
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, r *http.Request) { handler(w, r, &stopping{s, stop, told, over}) })
	if err := s.Listen(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		defer close(over)
		done <- s.Run(ctx)
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Transport).RoundTrip(req)
	close(told)
	if runErr := <-done; runErr != nil {
		t.Errorf("Run: %v", runErr)
	}
	return resp, err
}

func TestARunningRequestEndsBeforeRunReturns(t *testing.T) {
	t.Parallel()
	resp, err := stopped(t, time.Minute, func(w http.ResponseWriter, r *http.Request, s *stopping) {
		s.stop()
		for !s.stopping.Load() { // until the stop has begun
			runtime.Gosched()
		}
		if r.Context().Err() != nil {
			t.Error("a running request was cancelled while there was time")
		}
		// The listener closes shortly after the flag is set. Another server may get the port at
		// once, so the test does not dial it.
		for s.listener.(*net.TCPListener).SetDeadline(time.Time{}) == nil {
			runtime.Gosched()
		}
		fmt.Fprint(w, "done")
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := readString(t, resp); got != "done" {
		t.Errorf("the client got %q", got)
	}
}

func TestSlowRequestIsCanceledAtStop(t *testing.T) {
	t.Parallel()
	var cause error
	ended := false
	_, err := stopped(t, time.Millisecond, func(_ http.ResponseWriter, r *http.Request, s *stopping) {
		s.stop()
		<-r.Context().Done()
		cause = r.Context().Err()
		select {
		case <-s.told: // the connection is closed, and it still cleans up
		case <-time.After(time.Minute): // then it answers
		}
		select {
		case <-s.over:
		case <-time.After(20 * time.Millisecond):
			ended = true
		}
	})
	if err == nil {
		t.Error("the client got an answer")
	}
	if !ended {
		t.Fatal("Run returned while a handler was still running")
	}
	if !errors.Is(cause, context.Canceled) {
		t.Errorf("the handler saw %v", cause)
	}
}

// writeCert writes a self-signed certificate for 127.0.0.1 with a serial number.
func writeCert(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTLSIsHTTP1AndTheCertificateCanChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCert(t, certFile, keyFile, 1)
	var log bytes.Buffer
	s := running(t, Options{TLSCert: certFile, TLSKey: keyFile, Log: slog.New(slog.NewTextHandler(&log, nil))}, whoAmI)
	if left := time.Until(time.Unix(int64(s.cert.end()), 0)); left <= 0 || left > time.Hour || !strings.Contains(log.String(), "expires soon") {
		t.Errorf("a certificate that ends within the hour is said to end in %s; the log has %s", left, log.String())
	}
	serial := func() int64 {
		conn, err := tls.Dial("tcp", s.listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
			t.Errorf("protocol %q", got)
		}
		if _, err := io.WriteString(conn, "GET /me HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if got := readString(t, readResponse(t, conn, http.MethodGet)); got != "127.0.0.1 https x" {
			t.Errorf("got %q", got)
		}
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("serial %d", got)
	}
	writeCert(t, certFile, keyFile, 2)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 2 {
		t.Errorf("serial %d after Reload", got)
	}
	if err := os.WriteFile(keyFile, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "--tls-key") {
		t.Errorf("a broken key: %v", err)
	}
	if got := serial(); got != 2 {
		t.Errorf("serial %d after a failed Reload", got)
	}
}

// While a server stops, a connection without a request ends, so that its peer does not send the
// next one into it. docs/cluster.md says so.
func TestAServerThatStopsClosesIdleConnections(t *testing.T) {
	t.Parallel()
	resp, err := stopped(t, time.Minute, func(w http.ResponseWriter, _ *http.Request, s *stopping) {
		idle, err := net.Dial("tcp", s.listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer idle.Close()
		in := bufio.NewReader(idle)
		fmt.Fprint(idle, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp := next(t, in); resp.StatusCode != http.StatusOK || resp.Close {
			t.Errorf("before: status %d, close %v", resp.StatusCode, resp.Close)
		}
		s.stop()
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("the idle connection ends with %v", err)
		}
		fmt.Fprint(w, "done")
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := readString(t, resp); got != "done" {
		t.Errorf("the request that runs gets %q", got)
	}
}
