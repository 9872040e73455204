package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"smartdrive/client"
)

// The exit codes that scripts may rely on.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitAuth        = 3
	exitNotFound    = 4
	exitConflict    = 5
	exitNoSpace     = 6
	exitSome        = 7 // some items failed, the others are done
	exitFindings    = 8 // fsck found something
	exitInterrupted = 130
)

// exitError is an error that says how the process ends.
type exitError struct {
	code    int
	err     error
	stopped bool // it counts also when the process was told to stop: that is how a server ends
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// withCode gives err an exit code.
func withCode(code int, err error) error { return &exitError{code: code, err: err} }

// codeOf returns the exit code for err.
func codeOf(ctx context.Context, err error) int {
	var exit *exitError
	switch {
	case ctx.Err() != nil && !(errors.As(err, &exit) && exit.stopped):
		return exitInterrupted
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	case errors.Is(err, errNoServer), errors.Is(err, errNoToken):
		return exitAuth
	case strings.HasPrefix(err.Error(), "unknown command"): // cobra has no type for it
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
