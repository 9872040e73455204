package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// stallTime is how long a store may take no byte of a request, or send none of an answer that it
// has begun, before the connection counts as broken. It is longer than stores stand still to sync
// what they got.
const stallTime = 30 * time.Second

// takenConn is a connection whose peer must take what is sent to it: not all of it within a time,
// for a request may be long and the line slow, but something of it.
//
// Package http has no such limit. A store that stops reading (a process that stands still behind a
// kernel that does not) would hold the request, its part's lease and the connection for ever: the
// time for an answer runs only once everything is sent.
type takenConn struct {
	net.Conn
	stall time.Duration
}

// Write implements net.Conn.
func (c *takenConn) Write(p []byte) (n int, err error) {
	for {
		if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(p[n:])
		n += m
		if err == nil || m == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

func dialTaken(dial func(ctx context.Context, network, addr string) (net.Conn, error), stall time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &takenConn{c, stall}, nil
	}
}

// awaitBody makes reads of an answer's body fail that wait for too long. A connection has no
// deadline for reading: it is read also while nothing is expected.
func awaitBody(r *http.Request, stall time.Duration, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	resp, err := send(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &awaitedBody{ReadCloser: resp.Body, stall: stall, cancel: cancel, cause: func() error { return context.Cause(ctx) }}
	return resp, nil
}

type awaitedBody struct {
	io.ReadCloser
	stall  time.Duration
	cancel context.CancelCauseFunc
	cause  func() error
}

// Read implements io.Reader.
func (b *awaitedBody) Read(p []byte) (int, error) {
	late := time.AfterFunc(b.stall, func() { b.cancel(fmt.Errorf("the store has sent nothing for %v: %w", b.stall, os.ErrDeadlineExceeded)) })
	n, err := b.ReadCloser.Read(p)
	late.Stop()
	if cause := b.cause(); err != nil && err != io.EOF && errors.Is(cause, os.ErrDeadlineExceeded) {
		err = cause
	}
	return n, err
}

// Close implements io.Closer.
func (b *awaitedBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
