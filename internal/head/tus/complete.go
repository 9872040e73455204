package tus

import (
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
)

// completeIfFull completes an upload at the position pos if it has all its bytes, and returns its
// new position; otherwise it returns pos. A partial upload is never completed, because a final
// upload joins it. It fails with the error of complete.
func (c *call) completeIfFull(id drive.UploadID, pos upload.Position) (upload.Position, error) {
	if pos.Kind == upload.Final && pos.State.Open() {
		return c.completeFinal(id) // its bytes are being joined, or creating the file failed earlier
	}
	if pos.Kind != upload.Whole || !pos.State.Open() || pos.Offset != pos.Size {
		return pos, nil
	}
	if err := c.complete(id); err != nil {
		return pos, err
	}
	pos.State = upload.Done // or still sealing: either way it accepts no bytes and does not expire
	return pos, nil
}

// completeFinal completes a final upload, whose bytes are those of its partial uploads, and returns
// its position. It fails with the error of complete.
func (c *call) completeFinal(id drive.UploadID) (upload.Position, error) {
	if err := c.complete(id); err != nil {
		return upload.Position{}, err
	}
	return c.Uploads.Offset(c.r.Context(), c.who, id)
}

// complete turns an upload with all its bytes into a file. It returns nil also if that takes longer
// than SealWait; the server then continues in the background. If a declared digest of the file
// differs, it cancels the upload. An error is a *completionError.
func (c *call) complete(id drive.UploadID) error {
	done, err := c.completing(id)
	if err == nil {
		_, _, err = c.Uploads.Complete(c.r.Context(), c.who, id, done)
	}
	if drive.IsKind(err, drive.DigestMismatch) {
		c.cancelUnknown(id) // the bytes cannot be replaced in this protocol
	}
	if err != nil {
		return &completionError{c.redact(err)}
	}
	return nil
}
