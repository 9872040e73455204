package tus

import (
	"errors"
	"net/http"

	"example.org/smartdrive/internal/base/drive"
)

// Statuses of tus that package http lacks.
const (
	statusLocked           = 423 // RFC 4918 §11.3: another request holds the upload; clients retry
	statusChecksumMismatch = 460 // tus 1.0.0 §Checksum
)

// statusOf returns the HTTP status that tus requires for an error; 0 if the status of the native
// API applies. For a *completionError it returns 0, because the file is at fault, not the request.
// The switch lists every kind.
func statusOf(err error) int {
	if _, whole := errors.AsType[*completionError](err); whole {
		return 0 // the file is at fault, not this request
	}
	switch drive.KindOf(err) {
	case drive.DigestMismatch:
		return statusChecksumMismatch
	case drive.InProgress:
		return statusLocked
	case drive.PartsMissing: // a partial upload named by a final one; tusd answers the same
		return http.StatusBadRequest
	case drive.Internal, drive.BadRequest, drive.BadName, drive.PartSize, drive.PartRange, drive.CursorInvalid, drive.Unauthenticated,
		drive.Forbidden, drive.NotFound, drive.Method, drive.TooSlow, drive.NameTaken, drive.ParentGone, drive.PartDiffers,
		drive.OffsetMismatch, drive.WrongState, drive.VersionChanged, drive.Locked, drive.Cycle, drive.Gone, drive.LengthRequired,
		drive.Precondition, drive.TooLarge, drive.MediaType, drive.Range, drive.KeyReused, drive.DigestRequired, drive.Rate,
		drive.TooManyOpen, drive.Stopping, drive.Unavailable, drive.Quota, drive.DiskFull, drive.CrossOrigin, drive.WrongCode,
		drive.NoThumbnail:
	}
	return 0
}

// completionError is an error of turning an upload that has all its bytes into a file.
type completionError struct{ error }

// Unwrap returns the error of the completion.
func (e *completionError) Unwrap() error { return e.error }
