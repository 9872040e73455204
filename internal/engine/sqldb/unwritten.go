package sqldb

import (
	"errors"

	"smartdrive/internal/base/drive"
)

// ErrUnwritten marks an error of DB.Write that is Unavailable and nevertheless certain: the
// function never ran, because its caller gave up while it waited or no transaction could begin, or
// its transaction ended before COMMIT was sent. Without the mark the change may be there, and its
// reply was lost.
var ErrUnwritten = errors.New("nothing was written")

// ErrInDoubt marks an error of COMMIT on a server: it may have been committed, whatever Kind it
// has.
var ErrInDoubt = errors.New("it may have been committed")

// MaybeWritten reports whether a Write that has failed with err may have been committed all the
// same.
func MaybeWritten(err error) bool {
	return drive.IsKind(err, drive.Unavailable) && !errors.Is(err, ErrUnwritten) || errors.Is(err, ErrInDoubt)
}

// unwritten marks err. Errors of other kinds are certain without it.
func unwritten(err error) error {
	if !drive.IsKind(err, drive.Unavailable) || errors.Is(err, ErrUnwritten) {
		return err
	}
	return unwrittenError{err}
}

type unwrittenError struct{ error }

func (e unwrittenError) Unwrap() error        { return e.error }
func (e unwrittenError) Is(target error) bool { return target == ErrUnwritten }
