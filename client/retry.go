package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// patience says when to stop trying: nothing has succeeded for limit, and this call has failed at
// least leastTries times (so that one slow attempt does not use it up).
type patience struct {
	limit  time.Duration
	last   atomic.Int64 // Unix nanoseconds of the last success
	notify func(err error, wait time.Duration)
}

const leastTries = 3

func newPatience(limit time.Duration) *patience {
	p := &patience{limit: limit}
	p.touch()
	return p
}

// touch notes that something went well.
func (p *patience) touch() { p.last.Store(time.Now().UnixNano()) }

// out reports whether it is over after the given number of failures, if the next attempt comes
// after wait.
func (p *patience) out(failures int, wait time.Duration) bool {
	if wait > p.limit {
		return true
	}
	return failures >= leastTries && time.Now().Add(wait).UnixNano()-p.last.Load() > int64(p.limit)
}

// attempt errors that the transport's own do not tell apart.
type (
	// localError is a failure to read the file that is sent: no attempt will repair it.
	localError struct{ err error }
	// cutError is a connection that failed: before, while or after the request was sent.
	cutError struct {
		err  error
		sent bool // the server may have got the request
	}
)

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }
func (e *cutError) Error() string   { return "no answer from the server: " + e.err.Error() }
func (e *cutError) Unwrap() error   { return e.err }

// ErrGaveUp is the end of patience: nothing has succeeded for too long.
var ErrGaveUp = errors.New("gave up")

var errStalled = errors.New("nothing moved for too long")

// verdict says what an error of one attempt means for the next.
type verdict struct {
	again    bool          // trying again can help
	doubtful bool          // the request may have been carried out
	limited  bool          // a few times only: nothing says that it passes by itself
	wait     time.Duration // what the server asked for
}

func judge(err error) verdict {
	var (
		problem *Problem
		proxy   *ProxyError
		store   *StoreError
		cut     *cutError
	)
	switch {
	case errors.As(err, &problem):
		return judgeProblem(problem)
	case errors.As(err, &proxy):
		switch proxy.Status {
		case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
			return verdict{again: true, doubtful: true, wait: proxy.RetryAfter}
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return verdict{again: true, wait: proxy.RetryAfter}
		case http.StatusInternalServerError:
			return verdict{again: true, doubtful: true, limited: true}
		}
	case errors.As(err, &store):
		return judgeStore(store)
	case errors.As(err, &cut):
		return verdict{again: !hopeless(cut.err), doubtful: cut.sent}
	}
	return verdict{}
}

func judgeProblem(p *Problem) verdict {
	switch p.Code {
	case CodeInProgress, CodeRate, CodeStopping, CodeUnavailable, CodeTooSlow:
		return verdict{again: true, wait: p.RetryAfter}
	case CodeBadRequest: // of the body that broke off on its way, though the reply did not
		var reason string
		if p.Arg("reason", &reason) && reason == "cut" {
			return verdict{again: true}
		}
	case CodeInternal:
		return verdict{again: true, doubtful: true, limited: true}
	default:
	}
	return verdict{}
}

// hopeless reports errors of a connection that a later attempt meets again.
func hopeless(err error) bool {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		dns       *net.DNSError
	)
	if errors.As(err, &dns) {
		return dns.IsNotFound && !dns.IsTemporary
	}
	return errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &record)
}

// pause waits before the next attempt; failures counts those so far. It returns the error to give
// up with, nil to go on.
func (c *Client) pause(ctx context.Context, p *patience, v verdict, failures int, err error) error {
	wait := c.opt.MaxPause
	if shift := failures - 1; shift < 16 {
		wait = min(wait, c.opt.Pause<<shift)
	}
	wait = wait/2 + rand.N(wait/2+1)
	if v.wait > 0 {
		wait = v.wait + rand.N(v.wait/10+1)
	}
	if !v.again || v.limited && failures >= leastTries {
		return err
	}
	if p.out(failures, wait) {
		if failures > 1 {
			err = fmt.Errorf("%w after %d attempts: %w", ErrGaveUp, failures, err)
		}
		return err
	}
	if p.notify != nil {
		p.notify(err, wait)
	}
	return sleep(ctx, wait)
}

// sleep waits for d or the end of ctx, whichever comes first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
