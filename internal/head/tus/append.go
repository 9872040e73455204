package tus

import (
	"net/http"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload"
)

// patch handles PATCH: it appends bytes to an upload and replies 204 with the new offset. It fails
// with drive.MediaType, drive.BadRequest for a missing or malformed offset, and the error of fill
// for a wrong one.
func (c *call) patch() error {
	if !hasBytesType(c.r) {
		return drive.Fail(drive.MediaType, "field", "Content-Type", "sent", server.Clip(c.r.Header.Get("Content-Type")), "expected", bytesType)
	}
	text := c.r.Header.Get("Upload-Offset")
	if text == "" {
		return drive.BadField("Upload-Offset", drive.Required)
	}
	offset, err := parseNumber("Upload-Offset", text)
	if err != nil {
		return err
	}
	a := upload.Append{Offset: offset, Size: c.bodySize()}
	if a.Verify, err = verifier(c.r); err != nil {
		return err
	}
	if err := c.declareLength(); err != nil {
		return err
	}
	pos, err := c.fill(c.id, a)
	if drive.IsKind(err, drive.WrongState) {
		pos, err = c.patchEnded(a, err)
	}
	if err != nil {
		return err
	}
	c.w.Header().Set("Upload-Offset", number(pos.Offset))
	c.setExpires(pos)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// declareLength declares the Upload-Length of a PATCH as the length of an upload that was begun
// without one. Without the header it does nothing. It fails with drive.BadRequest for a malformed
// length, or if another one was declared.
func (c *call) declareLength() error {
	text := c.r.Header.Get("Upload-Length")
	if text == "" {
		return nil
	}
	size, err := parseNumber("Upload-Length", text)
	if err != nil {
		return err
	}
	return c.Uploads.DeclareSize(c.r.Context(), c.who, c.id, size)
}

// bodySize returns the length of the request body; UnknownSize if it is not declared.
func (c *call) bodySize() drive.ByteSize {
	if c.r.ContentLength < 0 {
		return blob.UnknownSize
	}
	return drive.ByteSize(c.r.ContentLength)
}

// fill appends the request body to the upload id as a says, and completes the upload if all bytes
// have arrived. It returns the new position. It fails with drive.OffsetMismatch for a wrong offset,
// drive.WrongState for an upload that accepts no more bytes, drive.Gone if the sender's collect
// link was closed meanwhile, or the error of completing. Bytes that have arrived stay.
func (c *call) fill(id drive.UploadID, a upload.Append) (upload.Position, error) {
	if err := server.RefuseEncoding(c.r); err != nil {
		return upload.Position{}, err
	}
	if _, err := c.Uploads.Append(c.r.Context(), c.who, id, a, server.RequestBody(c.r)); err != nil {
		return upload.Position{}, err
	}
	if c.sender != nil {
		if err := c.sender.CheckOpen(c.r.Context()); err != nil {
			return upload.Position{}, err
		}
	}
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, id)
	if err != nil {
		return pos, err
	}
	return c.completeIfFull(id, pos)
}

// patchEnded decides about a PATCH to an upload that accepts no more bytes. refusal is the error of
// the attempt. For an empty PATCH at the end of a complete upload it returns the position; the
// caller answers. Otherwise it returns refusal, with the kind that fits: drive.Forbidden for a
// final upload, drive.OffsetMismatch, or drive.TooLarge.
func (c *call) patchEnded(a upload.Append, refusal error) (upload.Position, error) {
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, c.id)
	switch {
	case err != nil:
		return pos, err
	case pos.Kind == upload.Final:
		return pos, drive.Wrap(refusal, drive.Forbidden, "field", concatHeader) // tus 1.0.0 §Concatenation
	case pos.State != upload.Sealing && pos.State != upload.Done:
		return pos, refusal
	case a.Offset != pos.Offset:
		return pos, drive.Wrap(refusal, drive.OffsetMismatch, "offset", pos.Offset, "sent", a.Offset)
	case a.Size != 0:
		return pos, drive.Wrap(refusal, drive.TooLarge, "limit", pos.Size, "sent", pos.Offset+max(a.Size, 1))
	}
	return pos, nil
}
