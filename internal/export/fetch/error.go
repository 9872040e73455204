package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
)

// Class tells whether retrying can help after a failure.
type Class uint8

// Classes of failures.
const (
	Final          Class = iota // retrying is useless: the document is missing or must not be fetched
	RetryHere                   // retry later
	RetryElsewhere              // retry on another machine: this one cannot reach the host
)

// Error reports why a document was not fetched. Reason is one of the Reason constants. Err is for
// the log only.
type Error struct {
	Class  Class
	Reason string
	Err    error
}

// Failure reasons. They are part of the API and of err.txt.
const (
	NotAllowed       = "not-allowed"  // the host is not on the list
	Redirected       = "redirected"   // redirected to a host that is not allowed, or too often
	Private          = "private"      // the host resolves to an address of this network
	Missing          = "missing"      // 404, 410
	Refused          = "refused"      // 401, 403 and other 4xx
	TooLarge         = "too-large"    // longer than allowed
	Encoded          = "encoded"      // has a Content-Encoding, though none was requested
	Unreachable      = "unreachable"  // DNS or connection failure
	TimedOut         = "timed-out"    // too slow, or no bytes
	Busy             = "busy"         // 429, 5xx
	BrokenOff        = "broken-off"   // ended before the declared length
	Empty            = "empty"        // no bytes, although a PDF was expected
	NotPDF           = "not-pdf"      // not a PDF, although one was expected, such as a login page
	UnexpectedStatus = "odd-response" // any other status
)

// Error returns the reason, and the cause if there is one.
func (e *Error) Error() string {
	if e.Err == nil {
		return "fetch: " + e.Reason
	}
	return "fetch: " + e.Reason + ": " + e.Err.Error()
}

// Unwrap returns the cause, which may be nil.
func (e *Error) Unwrap() error { return e.Err }

// errPrivate reports that the dialer refused an address.
var errPrivate = errors.New("an address of this network")

// errStalled reports that no bytes arrived within Options.Stall.
var errStalled = errors.New("no bytes for too long")

// errSlow reports that the rate within Options.RatePeriod was below minRate.
var errSlow = errors.New("too few bytes for too long")

// classify wraps an error of the HTTP client or of a body as *Error. An *Error and context.Canceled
// are returned unchanged.
func classify(err error) error {
	var known *Error
	var name *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, errPrivate):
		return &Error{Final, Private, err}
	case errors.Is(err, errStalled), errors.Is(err, context.DeadlineExceeded):
		return &Error{RetryHere, TimedOut, err}
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &name) && name.IsNotFound:
		return &Error{RetryElsewhere, Unreachable, err}
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return &Error{RetryElsewhere, Unreachable, err}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{RetryHere, TimedOut, err}
	}
	return &Error{RetryHere, BrokenOff, err}
}

// statusError returns nil for status 200, else an *Error. 404, 410 and other 4xx are Final; 408,
// 429 and 5xx are retried at the same host; a status below 400, such as 204, is Final as
// UnexpectedStatus.
func statusError(status int) error {
	err := fmt.Errorf("status %d %s", status, http.StatusText(status))
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusNotFound || status == http.StatusGone:
		return &Error{Final, Missing, err}
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500:
		return &Error{RetryHere, Busy, err}
	case status >= 400:
		return &Error{Final, Refused, err}
	}
	return &Error{Final, UnexpectedStatus, err}
}
