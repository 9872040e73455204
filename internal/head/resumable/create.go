package resumable

import (
	"net/http"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload"
)

// statusResumable is the interim status 104 (Upload Resumption Supported).
const statusResumable = 104

// create handles a PUT or POST of a file with Upload-Complete (§4.2): it begins an upload, appends
// the body, and completes the upload if the body is the whole file. By default a PUT replaces an
// existing file and a POST takes a free name. It fails with drive.BadRequest without that field,
// and for an incomplete file with If-Match or If-None-Match or without this draft's version.
func (c *call) create() error {
	complete, there := boolean(c.r.Header, completeField)
	switch {
	case !there:
		return drive.BadField(completeField, drive.Required)
	case !complete && !supportsDraft(c.r): // never store a part of a file as the whole
		return drive.BadField(interopField, drive.NotAllowed, "allowed", []string{interop})
	case !complete && conditional(c.r):
		return drive.BadField(completeField, drive.NotTogether, "with", "If-Match")
	}
	b, verify, err := c.readBegin(complete)
	if err != nil {
		return err
	}
	view, err := c.Uploads.Begin(c.r.Context(), c.who, b, nil)
	if err != nil {
		return err
	}
	if view.State == upload.Done.Public() { // the content was linked: no bytes are needed
		return c.completed(view, true)
	}
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, view.ID)
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Location", c.location(view.ID))
	c.setLimit(pos)
	if supportsDraft(c.r) && c.r.ProtoAtLeast(1, 1) {
		c.w.WriteHeader(statusResumable)
	}
	if err := c.append(view.ID, upload.Append{Size: c.bodySize(), Verify: verify, Last: complete && b.Size == blob.UnknownSize}, b.Size); err != nil {
		return err
	}
	if complete {
		return c.complete(view.ID)
	}
	return c.appended(view.ID, http.StatusCreated)
}

// readBegin parses the headers of a creation, and refuses invalid ones before anything is created.
// complete says that the body is the whole file. The verifier is nil if the request declares no
// digest of its body. It fails with the errors of ReadPut, with errInconsistent for a body longer
// than the declared length, and with drive.BadRequest for a malformed digest.
func (c *call) readBegin(complete bool) (upload.Begin, *digest.Verifier, error) {
	put, err := c.ReadPut(c.r)
	if err != nil {
		return upload.Begin{}, nil, err
	}
	if put.Conflict == "" {
		put.Conflict = drive.ConflictReplace
		if c.r.Method == http.MethodPost {
			put.Conflict = drive.ConflictRename
		}
	}
	b := upload.Begin{
		Place: put.Place, Path: put.Path, Conflict: put.Conflict, Parents: put.Parents, Digests: put.Digests, MTime: put.MTime, Mime: put.Mime,
		Protocol: upload.ResumableDraft,
	}
	if b.Size, err = c.length(0, complete); err != nil {
		return b, nil, err
	}
	if sent := c.bodySize(); b.Size != blob.UnknownSize && sent > b.Size {
		return b, nil, errInconsistent(nil, b.Size)
	}
	verify, err := c.verifier()
	return b, verify, err
}

// length returns the length of the whole file as the request's headers imply it (§4.1.3);
// UnknownSize if they do not. offset is where the body begins; complete says that it contains the
// last bytes. Contradicting headers fail with errInconsistent.
func (c *call) length(offset drive.ByteSize, complete bool) (drive.ByteSize, error) {
	size, declared := integer(c.r.Header, lengthField)
	if !declared {
		size = blob.UnknownSize
	}
	if sent := c.bodySize(); complete && sent != blob.UnknownSize {
		if declared && size != offset+sent {
			return 0, errInconsistent(nil, size)
		}
		return offset + sent, nil
	}
	return size, nil
}

// verifier returns a verifier of the body digests that the request declares (RFC 9530 §2); nil if
// it declares none.
func (c *call) verifier() (*digest.Verifier, error) {
	declared, err := digest.ParseContentDigest(server.JoinHeader(c.r.Header, "Content-Digest"))
	if err != nil || len(declared) == 0 {
		return nil, err
	}
	return digest.NewVerifier(declared), nil
}
