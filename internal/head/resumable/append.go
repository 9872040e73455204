package resumable

import (
	"mime"
	"net/http"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload"
)

// patch handles PATCH: it appends bytes to an upload, and completes it if Upload-Complete is true
// (§4.4). It fails with drive.OffsetMismatch, which tells the current offset, with drive.MediaType,
// and with drive.BadRequest for missing fields.
func (c *call) patch() error {
	if media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || media != bytesType {
		return drive.Wrap(err, drive.MediaType, "field", "Content-Type", "sent", server.Clip(c.r.Header.Get("Content-Type")), "expected", bytesType)
	}
	offset, there := integer(c.r.Header, offsetField)
	if !there {
		return drive.BadField(offsetField, drive.Required)
	}
	complete, there := boolean(c.r.Header, completeField)
	if !there {
		return drive.BadField(completeField, drive.Required)
	}
	verify, err := c.verifier()
	if err != nil {
		return err
	}
	pos, err := c.open()
	if err != nil {
		return err
	}
	if pos.Offset != offset {
		return drive.Fail(drive.OffsetMismatch, "offset", pos.Offset, "sent", offset)
	}
	size, err := c.agreeLength(pos, complete)
	if err != nil {
		return err
	}
	a := upload.Append{Offset: offset, Size: c.bodySize(), Verify: verify, Last: complete && size == blob.UnknownSize}
	if err := c.append(c.id, a, size); err != nil {
		return err
	}
	if complete {
		return c.complete(c.id)
	}
	return c.appended(c.id, http.StatusNoContent)
}

// open returns the position of the upload in the URL if it accepts bytes. It fails with drive.Gone
// for a cancelled or expired upload. For a completed one it sets Upload-Complete and fails: with
// errCompleted for a request without a body, else with errInconsistent.
func (c *call) open() (upload.Position, error) {
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, c.id)
	switch {
	case err != nil:
		return pos, err
	case pos.State == upload.Reclaiming || pos.State == upload.Gone:
		return pos, drive.Fail(drive.Gone)
	case pos.State == upload.Sealing || pos.State == upload.Done:
		c.w.Header().Set(completeField, formatBoolean(true))
		if c.bodySize() != 0 {
			return pos, errInconsistent(nil, pos.Size)
		}
		return pos, errCompleted()
	}
	return pos, nil
}

// agreeLength returns the length of the file, or UnknownSize. It compares the length that a PATCH
// implies with the declared one. If none was declared and the request has Upload-Length, it
// declares that. It fails with errInconsistent for a contradiction. A body that exceeds the length
// also cancels the upload.
func (c *call) agreeLength(pos upload.Position, complete bool) (drive.ByteSize, error) {
	size, err := c.length(pos.Offset, complete)
	switch {
	case err != nil:
		return 0, err
	case size != blob.UnknownSize && pos.Size != blob.UnknownSize && size != pos.Size:
		return 0, errInconsistent(nil, pos.Size)
	case pos.Size != blob.UnknownSize:
		if sent := c.bodySize(); sent != blob.UnknownSize && pos.Offset+sent > pos.Size {
			return 0, c.cancelExceeded(c.id, pos.Size)
		}
		return pos.Size, nil
	}
	if declared, there := integer(c.r.Header, lengthField); there {
		err = c.Uploads.DeclareSize(c.r.Context(), c.who, c.id, declared)
		if drive.IsKind(err, drive.BadRequest) {
			err = errInconsistent(err, declared)
		}
		return declared, err
	}
	return blob.UnknownSize, nil
}

// append adds the request's body to the upload id. size is the length of the whole file, or
// UnknownSize. A body that exceeds size cancels the upload. If the request has Upload-Complete: ?1
// and the file remains shorter than size, it fails with errInconsistent, and the received bytes
// stay.
func (c *call) append(id drive.UploadID, a upload.Append, size drive.ByteSize) error {
	a.OnDurable = c.progress()
	got, err := c.Uploads.Append(c.r.Context(), c.who, id, a, c.body(a.Offset == 0 && completes(c.r)))
	switch {
	case drive.IsKind(err, drive.TooLarge) && size != blob.UnknownSize && a.Size == blob.UnknownSize:
		return c.cancelExceeded(id, size)
	case err != nil:
		return err
	}
	if completes(c.r) && size != blob.UnknownSize && got != size {
		return errInconsistent(nil, size)
	}
	return nil
}

// completes reports whether the request contains the last bytes of the file (Upload-Complete: ?1).
// It is false if the field is absent or malformed.
func completes(r *http.Request) bool {
	complete, _ := boolean(r.Header, completeField)
	return complete
}

// cancelExceeded cancels an upload that received more bytes than its length, size, because its
// content cannot be right (§4.4). It always returns an error: errInconsistent, or the failure to
// cancel.
func (c *call) cancelExceeded(id drive.UploadID, size drive.ByteSize) error {
	if err := c.Uploads.Cancel(c.r.Context(), c.who, id); err != nil {
		return err
	}
	return errInconsistent(nil, size)
}

// appended answers a request whose bytes are not the last ones, with the given status and the new
// offset. It fails, before it answers, if the position cannot be read.
func (c *call) appended(id drive.UploadID, status int) error {
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, id)
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set(completeField, formatBoolean(false))
	h.Set(offsetField, formatInteger(pos.Offset))
	c.setLimit(pos)
	c.w.WriteHeader(status)
	return nil
}
