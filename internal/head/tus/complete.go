package tus

import (
	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/upload"
)

// completeIfFull makes a file of an upload that has all its bytes. A partial one waits for its
// final one.
func (c *call) completeIfFull(id drive.UploadID, pos upload.Position) (upload.Position, error) {
	if pos.Kind == upload.Final && pos.State.Open() {
		return c.completeFinal(id) // its bytes are being put together, or the file could not be made when they were
	}
	if pos.Kind != upload.Whole || !pos.State.Open() || pos.Offset != pos.Size {
		return pos, nil
	}
	if err := c.complete(id); err != nil {
		return pos, err
	}
	pos.State = upload.Done // or sealing: it takes no more bytes, and does not expire
	return pos, nil
}

func (c *call) completeFinal(id drive.UploadID) (upload.Position, error) {
	if err := c.complete(id); err != nil {
		return upload.Position{}, err
	}
	return c.Uploads.Offset(c.r.Context(), c.who, id)
}

// complete returns when the file is there, or when to wait for it any longer would look like a hung
// request; it then comes by itself.
func (c *call) complete(id drive.UploadID) error {
	done, err := c.completing(id)
	if err == nil {
		_, _, err = c.Uploads.Complete(c.r.Context(), c.who, id, done)
	}
	if drive.IsKind(err, drive.DigestMismatch) {
		c.giveUp(id) // the bytes are not those that were declared, and the protocol cannot take one back
	}
	if err != nil {
		return &wholeError{c.told(err)}
	}
	return nil
}
