package resumable

import (
	"errors"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/problem"
)

// The problem types of the draft (§7).
const (
	problemTypes       = "https://iana.org/assignments/http-problem-types#"
	mismatchingOffset  = problemTypes + "mismatching-upload-offset"
	completedUpload    = problemTypes + "completed-upload"
	inconsistentLength = problemTypes + "inconsistent-upload-length"
)

// typed is an error with a problem type of the draft.
type typed struct {
	error
	is string
}

func (t *typed) Unwrap() error { return t.error }

// inconsistent says that a request contradicts itself, or an earlier one, about how long the whole
// is.
func inconsistent(err error, length drive.ByteSize) error {
	return &typed{drive.Wrap(err, drive.BadRequest, "field", lengthField, "reason", string(drive.Malformed), "expected", fmt.Sprintf("%d bytes in all", length)), inconsistentLength}
}

// completed says that nothing can be added any more.
func completed() error {
	return &typed{drive.Bad(completeField, drive.NotAllowed, "allowed", []string{"a new upload"}), completedUpload}
}

func (c *call) fail(err error) {
	var as problem.Dialect
	if t, ok := errors.AsType[*typed](err); ok {
		as.Type = t.is
	}
	if e, ok := errors.AsType[*drive.Error](err); ok && e.Kind == drive.OffsetMismatch {
		as.Type = mismatchingOffset
		as.Args = drive.Args{"expected-offset": e.Args["offset"], "provided-offset": e.Args["sent"]}
		c.w.Header().Set(offsetField, fmt.Sprintf("%d", e.Args["offset"]))
	}
	if h := c.w.Header(); drive.IsKind(err, drive.OffsetMismatch, drive.BadRequest) && h.Get(completeField) == "" {
		h.Set(completeField, formatBoolean(false)) // the upload is not complete by it (§4.4)
	}
	if drive.IsKind(err, drive.TooLarge) && c.w.Header().Get(limitField) == "" {
		c.w.Header().Set(limitField, limit(drive.MaxFileSize))
	}
	problem.WriteAs(c.w, c.r, err, as)
}
