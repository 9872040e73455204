package sqldb

import (
	"errors"

	"example.org/smartdrive/internal/base/drive"
)

// ErrUnwritten marks an Unavailable error of DB.Write after which nothing was written: the function
// did not run, or its transaction ended before COMMIT. An Unavailable error without the mark may
// come from a lost reply to a successful commit.
var ErrUnwritten = errors.New("nothing was written")

// ErrInDoubt marks an error of COMMIT on a server. The commit may have succeeded, whatever the kind
// of the error.
var ErrInDoubt = errors.New("it may have been committed")

// MaybeWritten reports whether a Write that failed with err may have been committed.
func MaybeWritten(err error) bool {
	return drive.IsKind(err, drive.Unavailable) && !errors.Is(err, ErrUnwritten) || errors.Is(err, ErrInDoubt)
}

// unwritten returns err, marked with ErrUnwritten if it is Unavailable: the write certainly had no
// effect. Errors of other kinds stay as they are, because they are certain without the mark.
func unwritten(err error) error {
	if !drive.IsKind(err, drive.Unavailable) || errors.Is(err, ErrUnwritten) {
		return err
	}
	return unwrittenError{err}
}

// unwrittenError is an error marked with ErrUnwritten.
type unwrittenError struct{ error }

// Unwrap returns the wrapped error.
func (e unwrittenError) Unwrap() error { return e.error }

// Is makes the error match ErrUnwritten.
func (e unwrittenError) Is(target error) bool { return target == ErrUnwritten }
