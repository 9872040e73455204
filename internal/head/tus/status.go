package tus

import (
	"errors"
	"net/http"

	"smartdrive/internal/base/drive"
)

// The statuses of tus that package http does not know.
const (
	statusLocked           = 423 // RFC 4918 §11.3: another request has the upload; clients come again
	statusChecksumMismatch = 460 // tus 1.0.0 §Checksum
)

// statusOf is the status of an error where it is not the native API's; zero: it is that one. Every
// kind has its row.
func statusOf(err error) int {
	if _, whole := errors.AsType[*wholeError](err); whole {
		return 0 // what is wrong with the file is no matter of the request
	}
	switch drive.KindOf(err) {
	case drive.DigestMismatch:
		return statusChecksumMismatch
	case drive.InProgress:
		return statusLocked
	case drive.PartsMissing: // of a partial upload that a final one names: what tusd answers
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

// wholeError is what keeps all the bytes of an upload from becoming a file.
type wholeError struct{ error }

func (e *wholeError) Unwrap() error { return e.error }
