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

// retryBudget decides when to stop retrying: when nothing has succeeded for limit, and the call has
// failed at least minAttempts times, so that one slow attempt does not use up the budget. Several
// calls of a transfer share one budget.
type retryBudget struct {
	limit       time.Duration
	lastSuccess atomic.Int64                        // time of the last success, in Unix nanoseconds
	notify      func(err error, wait time.Duration) // called before each backoff; may be nil
}

// minAttempts is the least number of failures before a budget is exhausted.
const minAttempts = 3

// newRetryBudget returns a budget that is exhausted limit after now unless reset is called.
func newRetryBudget(limit time.Duration) *retryBudget {
	p := &retryBudget{limit: limit}
	p.reset()
	return p
}

// reset records a success: the limit counts from now.
func (b *retryBudget) reset() { b.lastSuccess.Store(time.Now().UnixNano()) }

// exhausted reports whether to give up after that many failures, because the next attempt, after
// wait, would begin more than limit after the last success. Before minAttempts failures it does so
// only if wait alone exceeds limit.
func (b *retryBudget) exhausted(failures int, wait time.Duration) bool {
	if wait > b.limit {
		return true
	}
	return failures >= minAttempts && time.Now().Add(wait).UnixNano()-b.lastSuccess.Load() > int64(b.limit)
}

// Errors of an attempt that the transport's own errors do not distinguish.
type (
	// localError is a failure to read the local file; it is not retried.
	localError struct{ err error }
	// connError is a failed connection, before, during or after the request.
	connError struct {
		err  error
		sent bool // the server may have received the request
	}
)

func (e *localError) Error() string { return e.err.Error() }

// Unwrap returns the local failure.
func (e *localError) Unwrap() error { return e.err }
func (e *connError) Error() string  { return "no answer from the server: " + e.err.Error() }

// Unwrap returns the error of the connection.
func (e *connError) Unwrap() error { return e.err }

// ErrRetriesExhausted reports that nothing has succeeded for Options.RetryFor in spite of retries.
// The error also wraps that of the last attempt.
var ErrRetriesExhausted = errors.New("gave up")

// errStalled reports that no bytes moved for Options.StallTimeout.
var errStalled = errors.New("nothing moved for too long")

// retryDecision says whether and how to retry after an error; the zero value means not to retry.
type retryDecision struct {
	retry   bool          // a retry may succeed
	inDoubt bool          // the server may have carried out the request
	limited bool          // give up after minAttempts failures, because the error may be permanent
	delay   time.Duration // delay the server asked for; 0: none
}

// classifyError returns how to retry after err. The zero retryDecision means not to retry.
func classifyError(err error) retryDecision {
	var (
		problem *Problem
		proxy   *ProxyError
		store   *StoreError
		cut     *connError
	)
	switch {
	case errors.As(err, &problem):
		return classifyProblem(problem)
	case errors.As(err, &proxy):
		switch proxy.Status {
		case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
			return retryDecision{retry: true, inDoubt: true, delay: proxy.RetryAfter}
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return retryDecision{retry: true, delay: proxy.RetryAfter}
		case http.StatusInternalServerError:
			return retryDecision{retry: true, inDoubt: true, limited: true}
		}
	case errors.As(err, &store):
		return classifyStoreError(store)
	case errors.As(err, &cut):
		return retryDecision{retry: !isPermanent(cut.err), inDoubt: cut.sent}
	}
	return retryDecision{}
}

// classifyProblem returns how to retry after an error reported by SmartDrive.
func classifyProblem(p *Problem) retryDecision {
	switch p.Code {
	case CodeInProgress, CodeRate, CodeStopping, CodeUnavailable, CodeTooSlow:
		return retryDecision{retry: true, delay: p.RetryAfter}
	case CodeBadRequest: // the request body was cut on the way
		var reason string
		if p.Arg("reason", &reason) && reason == "cut" {
			return retryDecision{retry: true}
		}
	case CodeInternal:
		return retryDecision{retry: true, inDoubt: true, limited: true}
	default:
	}
	return retryDecision{}
}

// isPermanent reports whether a connection error, such as a bad certificate or an unknown host,
// will recur.
func isPermanent(err error) bool {
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

// backoff waits before the next attempt: exponentially with jitter, or as long as the server asked.
// failures counts the failed attempts. It returns nil to retry, and otherwise the error to give up
// with: err, ErrRetriesExhausted wrapping err, or the context's cause.
func (c *Client) backoff(ctx context.Context, p *retryBudget, v retryDecision, failures int, err error) error {
	wait := c.opt.MaxBackoff
	if shift := failures - 1; shift < 16 {
		wait = min(wait, c.opt.MinBackoff<<shift)
	}
	wait = wait/2 + rand.N(wait/2+1)
	if v.delay > 0 {
		wait = v.delay + rand.N(v.delay/10+1)
	}
	if !v.retry || v.limited && failures >= minAttempts {
		return err
	}
	if p.exhausted(failures, wait) {
		if failures > 1 {
			err = fmt.Errorf("%w after %d attempts: %w", ErrRetriesExhausted, failures, err)
		}
		return err
	}
	if p.notify != nil {
		p.notify(err, wait)
	}
	return sleep(ctx, wait)
}

// sleep waits for d. It returns the context's cause if ctx ends first.
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
