package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"example.org/smartdrive/client"
)

// Exit codes. Scripts rely on them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitAuth        = 3
	exitNotFound    = 4
	exitConflict    = 5
	exitNoSpace     = 6
	exitPartial     = 7 // some items failed, the others succeeded
	exitFindings    = 8 // fsck found inconsistencies
	exitInterrupted = 130
)

// exitError is an error with an exit code.
type exitError struct {
	code          int
	err           error
	evenIfStopped bool // the code applies even after an interrupt, as for a server
}

func (e *exitError) Error() string { return e.err.Error() }

// Unwrap returns the error without the exit code.
func (e *exitError) Unwrap() error { return e.err }

// withCode wraps err so that the process exits with code. err must not be nil.
func withCode(code int, err error) error { return &exitError{code: code, err: err} }

// codeOf returns the exit code for an error: exitInterrupted if ctx has ended, the code of an
// exitError, or one derived from the kind of the error.
func codeOf(ctx context.Context, err error) int {
	var exit *exitError
	switch {
	case ctx.Err() != nil && !(errors.As(err, &exit) && exit.evenIfStopped):
		return exitInterrupted
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	case errors.Is(err, errNoServer), errors.Is(err, errNoToken):
		return exitAuth
	case strings.HasPrefix(err.Error(), "unknown command"): // cobra has no error type for this
		return exitUsage
	}
	switch client.CodeOf(err) {
	case client.CodeUnauthenticated, client.CodeForbidden:
		return exitAuth
	case client.CodeNotFound, client.CodeGone:
		return exitNotFound
	case client.CodeNameTaken, client.CodeParentGone, client.CodePartDiffers, client.CodePartsMissing, client.CodeState,
		client.CodeVersionChanged, client.CodeInProgress, client.CodeCycle, client.CodePrecondition:
		return exitConflict
	case client.CodeQuota, client.CodeDiskFull:
		return exitNoSpace
	default:
		return exitFailed
	}
}
