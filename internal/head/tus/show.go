package tus

import (
	"net/http"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload"
)

// position returns the position of the upload in the URL, for HEAD. A running PATCH of the upload
// is interrupted. If all bytes have arrived, it completes the upload, unless it is a partial one.
// It fails with drive.Gone if the upload was cancelled or has expired.
func (c *call) position() (upload.Position, error) {
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, c.id)
	if err != nil {
		return pos, err
	}
	if pos.Joined { // the client may not know that its last byte arrived
		return pos, nil
	}
	if pos.State == upload.Reclaiming || pos.State == upload.Gone {
		return pos, drive.Fail(drive.Gone)
	}
	return c.completeIfFull(c.id, pos)
}

// head handles HEAD: it replies 200 with length, offset, metadata and expiry. An unknown length is
// Upload-Defer-Length. A final upload has no offset before it is joined.
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
	case pos.Kind != upload.Final: // a final upload declares no length
		h.Set("Upload-Defer-Length", "1")
	}
	if pos.Kind != upload.Final || pos.State == upload.Done { // a final upload has no offset before it is joined
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

// concatOf returns the Upload-Concat value of an upload; "" for an ordinary upload, which is
// neither partial nor final.
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

// setExpires sets Upload-Expires, the time at which an inactive upload is deleted, unless it is
// complete.
func (c *call) setExpires(pos upload.Position) {
	if pos.State == upload.Active || pos.State == upload.Parked {
		c.w.Header().Set("Upload-Expires", pos.ExpiresAt.Std().UTC().Format(http.TimeFormat))
	}
}

// get handles GET: it redirects a browser to the content of the file, with 303. It fails with
// drive.NotFound until the upload is done, and with drive.Forbidden for senders of a collect link.
func (c *call) get() error {
	if c.sender != nil { // senders cannot read
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

// delete handles DELETE (termination): it cancels the upload and replies 204. A finished upload,
// whose file stays, fails with drive.Forbidden, a cancelled one with drive.Gone.
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
