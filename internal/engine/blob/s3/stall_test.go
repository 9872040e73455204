package s3

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// newStallingBucket starts a store that handles connections with serve, and returns a bucket with
// that stall limit.
func newStallingBucket(t *testing.T, stall time.Duration, serve func(conn net.Conn, r *bufio.Reader)) *Bucket {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn, bufio.NewReader(conn))
		}
	}()
	b, err := New(Options{
		Endpoint: l.Addr().String(), Bucket: "bucket", AccessKey: "access", SecretKey: "secretsecret", Region: "us-east-1", Insecure: true,
		Transport: newTransport(stall, slog.Default()),
	})
	noError(t, err)
	return b
}

// TestRequestEndsWhenStoreStopsReading sends a PUT to a store that reads the header only, like a
// frozen process on a live kernel.
func TestRequestEndsWhenStoreStopsReading(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	defer close(over)
	b := newStallingBucket(t, 50*time.Millisecond, func(conn net.Conn, r *bufio.Reader) {
		defer conn.Close()
		if _, err := http.ReadRequest(r); err == nil {
			<-over
		}
	})
	data := blobtest.Bytes(1, 32<<20)
	_, err := b.Blobs.Put(t.Context(), drive.NewID[drive.BlobID]().String(), bodyOf(0, len(data), bytes.NewReader(data)))
	if !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("Put returned %v", err)
	}
}

// TestReadEndsWhenStoreStopsSending stops in the middle of an answer.
func TestReadEndsWhenStoreStopsSending(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	defer close(over)
	b := newStallingBucket(t, 50*time.Millisecond, func(conn net.Conn, r *bufio.Reader) {
		defer conn.Close()
		if _, err := http.ReadRequest(r); err == nil {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: 1000\r\n\r\n<?xml")
			<-over
		}
	})
	err := b.Objects().List(t.Context(), func(string) error { return nil })
	if !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("List returned %v", err)
	}
}

// TestSlowStoreIsNotCutOff checks that slow stores and pausing senders are tolerated.
func TestSlowStoreIsNotCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := &stallConn{ours, stallTime}
		read := make(chan int64)
		go func() {
			var n int64
			for {
				time.Sleep(stallTime - time.Second)
				m, err := io.CopyN(io.Discard, theirs, 1000)
				if n += m; err != nil {
					read <- n
					return
				}
			}
		}()
		for range 5 {
			if n, err := c.Write(make([]byte, 10_000)); n != 10_000 || err != nil {
				t.Fatalf("%d bytes went out: %v", n, err)
			}
			time.Sleep(time.Hour)
		}
		ours.Close()
		if n := <-read; n != 50_000 {
			t.Errorf("%d bytes came", n)
		}
	})
}

// TestSlowAnswerIsReadToItsEnd also checks the limits over TLS.
func TestSlowAnswerIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	piece := strings.Repeat("x", 100)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 50 {
			fmt.Fprint(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(srv.Close)
	tr := newTransport(time.Hour, slog.Default())
	tr.fast.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	t.Cleanup(tr.CloseIdleConnections)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
	noError(t, err)
	resp, err := tr.RoundTrip(r)
	noError(t, err)
	got, err := io.ReadAll(resp.Body)
	noError(t, err)
	noError(t, resp.Body.Close())
	if string(got) != strings.Repeat(piece, 50) {
		t.Errorf("%d bytes came", len(got))
	}
}

// TestStalledWriteReleasesLease checks that the part can be sent again, to any instance.
func TestStalledWriteReleasesLease(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	other := bucketAt(t, o)
	silent := newTransport(50*time.Millisecond, slog.Default())
	silent.fast.DialContext = dialWithStall(func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe() // nobody reads
		t.Cleanup(func() { theirs.Close() })
		return ours, nil
	}, 50*time.Millisecond)
	o.Transport = silent
	stuck := bucketAt(t, o)
	ref, file := newUpload(t, other.Staging)
	_, err := blobtest.Send(t.Context(), stuck.Staging, ref, 1, 0, slicePart(file, 0))
	wantKind(t, err, drive.Unavailable)
	send(t, other.Staging, ref, 0, slicePart(file, 0)) // at once: no InProgress
	send(t, other.Staging, ref, 1, slicePart(file, 1))
	noError(t, other.Staging.Seal(t.Context(), ref, ref.Size))
	wantContent(t, other, ref, file)
}
