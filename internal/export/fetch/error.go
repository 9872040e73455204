package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
)

// Class says what helps against a failure.
type Class uint8

// The classes.
const (
	Final     Class = iota // nothing: the document is not there, or may not be fetched
	Here                   // the same again after a pause
	Elsewhere              // another machine may have better luck: this one does not get there
)

// Error says why a document was not fetched. Reason is one of the Reason constants; Err is for the
// log.
type Error struct {
	Class  Class
	Reason string
	Err    error
}

// The reasons. They are part of the API and of err.txt.
const (
	NotAllowed  = "not-allowed"  // the host is not on the list
	Redirected  = "redirected"   // to where it may not go, or too often
	Private     = "private"      // its address is one of this network
	Missing     = "missing"      // 404, 410
	Refused     = "refused"      // 401, 403 and other 4xx
	TooLarge    = "too-large"    // longer than allowed
	Encoded     = "encoded"      // in a Content-Encoding that was not asked for
	Unreachable = "unreachable"  // no such name, no connection
	TimedOut    = "timed-out"    // too slow, or silent
	Busy        = "busy"         // 429, 5xx
	BrokenOff   = "broken-off"   // it ended before its declared length
	Empty       = "empty"        // no bytes where a PDF was expected
	NotPDF      = "not-pdf"      // something else where a PDF was expected, such as a page to log in
	Odd         = "odd-response" // neither of these
)

func (e *Error) Error() string {
	if e.Err == nil {
		return "fetch: " + e.Reason
	}
	return "fetch: " + e.Reason + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// errPrivate comes out of the dialer.
var errPrivate = errors.New("an address of this network")

// errStalled is why a read was given up.
var errStalled = errors.New("no bytes for too long")

// errSlow is why a read was given up whose bytes come, but too few of them.
var errSlow = errors.New("too few bytes for too long")

// classify says what an error of the client or of a body is. One of this package stays as it is.
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
		return &Error{Here, TimedOut, err}
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &name) && name.IsNotFound:
		return &Error{Elsewhere, Unreachable, err}
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return &Error{Elsewhere, Unreachable, err}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Here, TimedOut, err}
	}
	return &Error{Here, BrokenOff, err}
}

// ofStatus is the error of a response that is not 200; nil when it is.
func ofStatus(status int) error {
	err := fmt.Errorf("status %d %s", status, http.StatusText(status))
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusNotFound || status == http.StatusGone:
		return &Error{Final, Missing, err}
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500:
		return &Error{Here, Busy, err}
	case status >= 400:
		return &Error{Final, Refused, err}
	}
	return &Error{Final, Odd, err}
}
