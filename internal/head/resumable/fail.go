package resumable

import (
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
)

// The problem types of the draft (§7).
const (
	problemTypes       = "https://iana.org/assignments/http-problem-types#"
	mismatchingOffset  = problemTypes + "mismatching-upload-offset"
	completedUpload    = problemTypes + "completed-upload"
	inconsistentLength = problemTypes + "inconsistent-upload-length"
)

// typedError is an error that is answered with a problem type of the draft instead of this server's
// own.
type typedError struct {
	error
	problemType string // the problem type URI
}

// Unwrap returns the error without its problem type.
func (e *typedError) Unwrap() error { return e.error }

// errInconsistent returns the error for a request that contradicts itself or an earlier one about
// the length of the file, which is length: drive.BadRequest with the type inconsistentLength. err
// is its cause; nil for none.
func errInconsistent(err error, length drive.ByteSize) error {
	return &typedError{drive.Wrap(err, drive.BadRequest, "field", lengthField, "reason", string(drive.Malformed), "expected", fmt.Sprintf("%d bytes in all", length)), inconsistentLength}
}

// errCompleted returns the error for a request to append to a completed upload: drive.BadRequest
// with the type completedUpload.
func errCompleted() error {
	return &typedError{drive.BadField(completeField, drive.NotAllowed, "allowed", []string{"a new upload"}), completedUpload}
}

// fail answers the request with err as a problem document, with the headers and types that the
// draft requires.
func (c *call) fail(err error) {
	var as problem.Dialect
	if t, ok := errors.AsType[*typedError](err); ok {
		as.Type = t.problemType
	}
	if e, ok := errors.AsType[*drive.Error](err); ok && e.Kind == drive.OffsetMismatch {
		as.Type = mismatchingOffset
		as.Args = drive.Args{"expected-offset": e.Args["offset"], "provided-offset": e.Args["sent"]}
		c.w.Header().Set(offsetField, fmt.Sprintf("%d", e.Args["offset"]))
	}
	if h := c.w.Header(); drive.IsKind(err, drive.OffsetMismatch, drive.BadRequest) && h.Get(completeField) == "" {
		h.Set(completeField, formatBoolean(false)) // the upload is still incomplete (§4.4)
	}
	if drive.IsKind(err, drive.TooLarge) && c.w.Header().Get(limitField) == "" {
		c.w.Header().Set(limitField, limit(drive.MaxFileSize))
	}
	problem.WriteAs(c.w, c.r, err, as)
}
