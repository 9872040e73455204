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

// stallTime is the time without progress, in sending a request or reading a begun answer, after
// which a connection counts as broken. It is longer than the pauses of stores that sync.
const stallTime = 30 * time.Second

// stallConn is a connection whose writes fail if the peer accepts no byte for the time stall. A
// write may take longer than that in total, if it makes progress.
//
// Package http has no such limit: its response timeout starts when the request has been sent. A
// store that stops reading would hold the request, the part's lease and the connection forever.
type stallConn struct {
	net.Conn
	stall time.Duration
}

// Write writes p; it fails once the peer accepts no byte for the time stall.
func (c *stallConn) Write(p []byte) (n int, err error) {
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

// dialWithStall returns dial with its connections wrapped in stallConn.
func dialWithStall(dial func(ctx context.Context, network, addr string) (net.Conn, error), stall time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &stallConn{c, stall}, nil
	}
}

// sendWithStall sends r and makes reads of the answer's body fail that get nothing for the time
// stall. A read deadline on the connection would not work, because package http also reads from
// idle connections.
func sendWithStall(r *http.Request, stall time.Duration, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	resp, err := send(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &stallBody{ReadCloser: resp.Body, stall: stall, cancel: cancel, cause: func() error { return context.Cause(ctx) }}
	return resp, nil
}

// stallBody is a response body whose Read fails if no byte arrives for some time.
type stallBody struct {
	io.ReadCloser
	stall  time.Duration           // limit of one Read
	cancel context.CancelCauseFunc // cancels the request
	cause  func() error            // of the request's cancellation
}

// Read reads from the body. If no byte arrives for the time stall, it cancels the request and fails
// with an error that wraps os.ErrDeadlineExceeded.
func (b *stallBody) Read(p []byte) (int, error) {
	late := time.AfterFunc(b.stall, func() { b.cancel(fmt.Errorf("the store has sent nothing for %v: %w", b.stall, os.ErrDeadlineExceeded)) })
	n, err := b.ReadCloser.Read(p)
	late.Stop()
	if cause := b.cause(); err != nil && err != io.EOF && errors.Is(cause, os.ErrDeadlineExceeded) {
		err = cause
	}
	return n, err
}

// Close closes the body and cancels the request's context, which ends the watch for stalls.
func (b *stallBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
