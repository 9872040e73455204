package resumable

import (
	"net/http"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/upload"
)

// complete turns an upload into a file and answers as if the file had come in one request. It waits
// until the file exists. It first sets Upload-Complete, which marks the response, even an error, as
// one about the file instead of the upload.
func (c *call) complete(id drive.UploadID) error {
	c.markFileResponse()
	for {
		view, created, err := c.Uploads.Complete(c.r.Context(), c.who, id, upload.Complete{})
		switch {
		case err != nil:
			return err
		case view.State == upload.Sealing.Public(): // a PUT waits until the file is there
			continue
		}
		return c.completed(view, created)
	}
}

// markFileResponse sets the headers that mark the response as concerning the file instead of the
// upload.
func (c *call) markFileResponse() {
	h := c.w.Header()
	h.Del("Location")
	h.Del(limitField)
	h.Set(completeField, formatBoolean(true))
}

// completed answers a request about a finished upload like a PUT of its file; with 204 if the file
// was deleted since. created says that this request finished the upload; only then a new file is
// answered with 201.
func (c *call) completed(view upload.View, created bool) error {
	c.markFileResponse()
	if view.Node == nil { // deleted since
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	c.setDigest()
	isNew := created && view.Node.Rev == 1 // not just another version of an existing file
	return c.AnswerPut(c.w, c.r, *view.Node, isNew)
}

// head handles HEAD and GET, which has no body (§4.3). An upload that is being sealed counts as
// complete, because it accepts no more bytes. It fails with drive.NotFound, or drive.Gone for a
// cancelled upload.
func (c *call) head() error {
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, c.id)
	switch {
	case err != nil:
		return err
	case pos.State == upload.Reclaiming || pos.State == upload.Gone:
		return drive.Fail(drive.Gone)
	}
	h := c.w.Header()
	h.Set(offsetField, formatInteger(pos.Offset))
	h.Set(completeField, formatBoolean(pos.State == upload.Sealing || pos.State == upload.Done))
	if pos.Size != blob.UnknownSize {
		h.Set(lengthField, formatInteger(pos.Size))
	}
	c.setLimit(pos)
	h.Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// delete handles DELETE (§4.5): it cancels the upload and replies 204. The file of a finished
// upload stays.
func (c *call) delete() error {
	if err := c.Uploads.Cancel(c.r.Context(), c.who, c.id); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
