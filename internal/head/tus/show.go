package tus

import (
	"net/http"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/upload"
)

// position is how far the upload of the address has come. One that has all its bytes is completed.
func (c *call) position() (upload.Position, error) {
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, c.id)
	if err != nil {
		return pos, err
	}
	if pos.Joined { // its client may not have heard that the last byte has come
		return pos, nil
	}
	if pos.State == upload.Reclaiming || pos.State == upload.Gone {
		return pos, drive.Fail(drive.Gone)
	}
	return c.completeIfFull(c.id, pos)
}

// head is HEAD.
func (c *call) head() error {
	pos, err := c.position()
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Cache-Control", "no-store")
	switch {
	case pos.Size != blob.UnknownSize:
		h.Set("Upload-Length", number(pos.Size))
	case pos.Kind != upload.Final: // it declares none
		h.Set("Upload-Defer-Length", "1")
	}
	if pos.Kind != upload.Final || pos.State == upload.Done { // a final one has no offset before it is put together
		h.Set("Upload-Offset", number(pos.Offset))
	}
	if pos.Metadata != "" {
		h.Set(metadataHeader, pos.Metadata)
	}
	if text := c.concatOf(pos); text != "" {
		h.Set(concatHeader, text)
	}
	c.setExpires(pos)
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// concatOf is the Upload-Concat of an upload.
func (c *call) concatOf(pos upload.Position) string {
	switch pos.Kind {
	case upload.Partial:
		return partial
	case upload.Final:
		addresses := make([]string, len(pos.Partials))
		for i, id := range pos.Partials {
			addresses[i] = c.location(id)
		}
		return finalPrefix + strings.Join(addresses, " ")
	case upload.Whole:
	}
	return ""
}

// setExpires says when an upload that is not complete will be deleted unless more comes.
func (c *call) setExpires(pos upload.Position) {
	if pos.State == upload.Active || pos.State == upload.Parked {
		c.w.Header().Set("Upload-Expires", pos.ExpiresAt.Std().UTC().Format(http.TimeFormat))
	}
}

// get sends a browser on to the file; before it is there, there is nothing to get.
func (c *call) get() error {
	if c.by != nil { // they send, and read nothing
		return drive.Fail(drive.Forbidden)
	}
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, c.id)
	if err != nil {
		return err
	}
	if pos.State != upload.Done {
		return drive.Fail(drive.NotFound)
	}
	c.w.Header().Set("Location", server.BaseURL(c.BaseURL, c.r)+c.Content(pos.Node))
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// delete is DELETE: termination. A file that an upload has become is not deleted by it.
func (c *call) delete() error {
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, c.id)
	switch {
	case err != nil:
		return err
	case pos.State == upload.Reclaiming || pos.State == upload.Gone:
		return drive.Fail(drive.Gone)
	case pos.State == upload.Done:
		return drive.Fail(drive.Forbidden, "reason", "finished")
	}
	if err := c.Uploads.Cancel(c.r.Context(), c.who, c.id); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
