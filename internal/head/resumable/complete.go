package resumable

import (
	"net/http"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/usecase/upload"
)

// complete makes a file of an upload and answers as if all of it had come with the first request.
// Upload-Complete says that the answer is about the file, whatever its status.
func (c *call) complete(id drive.UploadID) error {
	c.aboutTheFile()
	for {
		view, created, err := c.Uploads.Complete(c.r.Context(), c.who, id, upload.Complete{})
		switch {
		case err != nil:
			return err
		case view.State == upload.Sealing.Public(): // a PUT waits as long as it takes
			continue
		}
		return c.completed(view, created)
	}
}

// aboutTheFile says that the answer is not about the upload.
func (c *call) aboutTheFile() {
	h := c.w.Header()
	h.Del("Location")
	h.Del(limitField)
	h.Set(completeField, formatBoolean(true))
}

// completed answers for an upload that is done; created: by this request.
func (c *call) completed(view upload.View, created bool) error {
	c.aboutTheFile()
	if view.Node == nil { // deleted since
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	c.setDigest()
	isNew := created && view.Node.Rev == 1 // not one more version of a file that was there
	return c.AnswerPut(c.w, c.r, *view.Node, isNew)
}

// head is HEAD, and GET, which has nothing to add (§4.3). Sealing is complete: nothing can be
// added, and the file comes by itself.
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

// delete is DELETE (§4.5). A file that an upload has become is not deleted by it.
func (c *call) delete() error {
	if err := c.Uploads.Cancel(c.r.Context(), c.who, c.id); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
