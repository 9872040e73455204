package tus

import (
	"context"
	"mime"
	"net/http"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload"
)

// bytesType is the media type of upload data.
const bytesType = "application/offset+octet-stream"

// creation is a parsed POST, which creates an upload.
type creation struct {
	begin  upload.Begin
	sums   digest.Set // declared digests; begin has none, or Begin might return an open upload of the same file, but each POST creates its own
	concat concat
	body   bool // the body has the first bytes
	verify *digest.Verifier
}

// create handles POST: it begins an upload, with or without the first bytes, or joins partial
// uploads to a final one. It replies 201. If the first bytes fail, it cancels the upload, because
// the client does not know its URL.
func (c *call) create() error {
	in, err := c.readCreation()
	if err != nil {
		return err
	}
	if in.concat.final {
		return c.concatenate(in)
	}
	view, err := c.begin(&in)
	if err != nil {
		return err
	}
	pos, err := c.fillFirst(view, in)
	if err != nil {
		c.cancelUnknown(view.ID)
		return err
	}
	if in.body || pos.Offset > 0 {
		c.w.Header().Set("Upload-Offset", number(pos.Offset))
	}
	return c.created(pos, view.ID)
}

// created replies 201 with Location and, where one applies, the expiry. It always returns nil.
func (c *call) created(pos upload.Position, id drive.UploadID) error {
	c.w.Header().Set("Location", c.location(id))
	c.setExpires(pos)
	c.w.WriteHeader(http.StatusCreated)
	return nil
}

// readCreation parses a POST and refuses invalid ones before anything is created. It fails with
// drive.BadRequest, drive.BadName or drive.TooLarge.
func (c *call) readCreation() (creation, error) {
	raw := server.JoinHeader(c.r.Header, metadataHeader)
	meta, err := parseMetadata(raw)
	if err != nil {
		return creation{}, err
	}
	var in creation
	if in.concat, err = parseConcat(c.r.Header.Get(concatHeader)); err != nil {
		return creation{}, err
	}
	if in.concat.partial {
		in.begin = upload.Begin{Kind: upload.Partial, Protocol: upload.Tus}
	} else if in.begin, err = meta.readBegin(); err != nil {
		return creation{}, err
	}
	in.begin.Metadata = raw
	if !in.concat.final {
		in.sums, in.begin.Digests = in.begin.Digests, nil
	}
	if in.begin.Size, err = c.declaredSize(in.concat.final); err != nil {
		return creation{}, err
	}
	return in, c.readFirst(&in)
}

// declaredSize returns the size that Upload-Length declares; UnknownSize for Upload-Defer-Length:
// 1. Exactly one of the headers is required. A final upload must have neither, and gets
// UnknownSize, because its size is the sum of its partial uploads. Otherwise it fails with
// drive.BadRequest.
func (c *call) declaredSize(final bool) (drive.ByteSize, error) {
	length, deferred := c.r.Header.Get("Upload-Length"), c.r.Header.Get("Upload-Defer-Length")
	switch {
	case length != "" && final:
		return 0, drive.BadField("Upload-Length", drive.NotTogether, "with", concatHeader)
	case deferred != "" && final:
		return 0, drive.BadField("Upload-Defer-Length", drive.NotTogether, "with", concatHeader)
	case length != "" && deferred != "":
		return 0, drive.BadField("Upload-Length", drive.NotTogether, "with", "Upload-Defer-Length")
	case final, deferred == "1":
		return blob.UnknownSize, nil
	case deferred != "":
		return 0, drive.BadField("Upload-Defer-Length", drive.NotAllowed, "allowed", []string{"1"})
	case length == "":
		return 0, drive.BadField("Upload-Length", drive.Required)
	}
	return parseNumber("Upload-Length", length)
}

// readFirst reads the headers about the bytes in the POST's body into in. It fails with
// drive.MediaType for bytes of another type, drive.BadRequest for bytes of a final upload or a bad
// checksum header, and drive.TooLarge.
func (c *call) readFirst(in *creation) (err error) {
	in.body = hasBytesType(c.r)
	switch sent := drive.ByteSize(c.r.ContentLength); {
	case !in.body && sent > 0:
		return drive.Fail(drive.MediaType, "field", "Content-Type", "sent", server.Clip(c.r.Header.Get("Content-Type")), "expected", bytesType)
	case in.body && in.concat.final:
		return drive.BadField("body", drive.NotTogether, "with", concatHeader)
	case in.begin.Size != blob.UnknownSize && sent > in.begin.Size:
		return drive.Fail(drive.TooLarge, "limit", in.begin.Size, "sent", sent)
	}
	if in.body {
		in.verify, err = verifier(c.r)
	}
	return err
}

// hasBytesType reports whether Content-Type is bytesType; a malformed or absent one is not.
func hasBytesType(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == bytesType
}

// fillFirst declares the digests of the new upload, appends the POST's body, and completes the
// upload if it has all bytes. It returns the position. If a digest matched content that the server
// already has, that is used: the body is ignored, and the offset is the end. On an error it leaves
// the upload as it is.
func (c *call) fillFirst(view upload.View, in creation) (_ upload.Position, err error) {
	if len(in.sums) > 0 {
		if view, err = c.Uploads.Patch(c.r.Context(), c.who, view.ID, upload.Patch{Digests: in.sums}); err != nil {
			return upload.Position{}, err
		}
	}
	if in.body && view.State == upload.Active.Public() {
		return c.fill(view.ID, upload.Append{Size: c.bodySize(), Verify: in.verify})
	}
	pos, err := c.Uploads.Offset(c.r.Context(), c.who, view.ID)
	if err != nil {
		return pos, err
	}
	return c.completeIfFull(view.ID, pos)
}

// cancelTime bounds how long a refused creation waits for the cancellation; afterwards the upload's
// timers clean up.
const cancelTime = 5 * time.Second

// cancelUnknown cancels an upload that its client cannot continue, even if the request's context
// has ended. If that fails, the upload expires later like an abandoned one.
func (c *call) cancelUnknown(id drive.UploadID) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(c.r.Context()), cancelTime)
	defer stop()
	_ = c.Uploads.Cancel(ctx, c.who, id)
}

// concatenate handles the creation of a final upload from complete partial uploads and replies 201.
// It fails with drive.BadRequest for senders and with the error of Concat or of completing.
func (c *call) concatenate(in creation) error {
	if c.sender != nil { // senders cannot create partial uploads
		return drive.BadField(concatHeader, drive.NotAllowed, "allowed", []string{})
	}
	view, err := c.Uploads.Concat(c.r.Context(), c.who, in.begin, in.concat.partials, nil)
	if err != nil {
		return err
	}
	if view.State != upload.Done.Public() {
		if err := c.complete(view.ID); err != nil {
			return err
		}
	}
	return c.created(upload.Position{State: upload.Done}, view.ID) // or still sealing: either way it does not expire
}
