package tus

import (
	"context"
	"mime"
	"net/http"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/upload"
)

const bytesType = "application/offset+octet-stream"

// creation is what a POST asks for.
type creation struct {
	begin  upload.Begin
	sums   digest.Set // declared ones; the begin has none, or it might find an open upload of the same file: each POST makes its own
	concat concat
	body   bool // it brings the first bytes
	verify *digest.Verifier
}

// create is POST: creation, with or without the first bytes, and concatenation.
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
		c.giveUp(view.ID)
		return err
	}
	if in.body || pos.Offset > 0 {
		c.w.Header().Set("Upload-Offset", number(pos.Offset))
	}
	return c.created(pos, view.ID)
}

func (c *call) created(pos upload.Position, id drive.UploadID) error {
	c.w.Header().Set("Location", c.location(id))
	c.setExpires(pos)
	c.w.WriteHeader(http.StatusCreated)
	return nil
}

// readCreation reads a POST and refuses what can be refused before anything is made.
func (c *call) readCreation() (creation, error) {
	raw := server.Joined(c.r.Header, metadataHeader)
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

// declaredSize reads Upload-Length and Upload-Defer-Length: exactly one of them, but for a final
// upload, whose size is that of its partial ones.
func (c *call) declaredSize(final bool) (drive.ByteSize, error) {
	length, deferred := c.r.Header.Get("Upload-Length"), c.r.Header.Get("Upload-Defer-Length")
	switch {
	case length != "" && final:
		return 0, drive.Bad("Upload-Length", drive.NotTogether, "with", concatHeader)
	case deferred != "" && final:
		return 0, drive.Bad("Upload-Defer-Length", drive.NotTogether, "with", concatHeader)
	case length != "" && deferred != "":
		return 0, drive.Bad("Upload-Length", drive.NotTogether, "with", "Upload-Defer-Length")
	case final, deferred == "1":
		return blob.UnknownSize, nil
	case deferred != "":
		return 0, drive.Bad("Upload-Defer-Length", drive.NotAllowed, "allowed", []string{"1"})
	case length == "":
		return 0, drive.Bad("Upload-Length", drive.Required)
	}
	return parseNumber("Upload-Length", length)
}

// readFirst reads what the POST says of the bytes that come with it.
func (c *call) readFirst(in *creation) (err error) {
	in.body = hasBytesType(c.r)
	switch sent := drive.ByteSize(c.r.ContentLength); {
	case !in.body && sent > 0:
		return drive.Fail(drive.MediaType, "field", "Content-Type", "sent", server.Clip(c.r.Header.Get("Content-Type")), "expected", bytesType)
	case in.body && in.concat.final:
		return drive.Bad("body", drive.NotTogether, "with", concatHeader)
	case in.begin.Size != blob.UnknownSize && sent > in.begin.Size:
		return drive.Fail(drive.TooLarge, "limit", in.begin.Size, "sent", sent)
	}
	if in.body {
		in.verify, err = verifier(c.r)
	}
	return err
}

func hasBytesType(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == bytesType
}

// fillFirst declares the digests, adds the bytes that came with the POST, and completes what has
// all its bytes. Content that is there already was linked by its digest: its bytes are not needed
// then, and the client learns that the offset is the end.
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

// giveUpTime is how long a refusal waits for the upload to be taken back; later its timers do it.
const giveUpTime = 5 * time.Second

// giveUp takes an upload back whose address nobody knows. What fails here is done by the upload's
// own timers.
func (c *call) giveUp(id drive.UploadID) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(c.r.Context()), giveUpTime)
	defer stop()
	_ = c.Uploads.Cancel(ctx, c.who, id)
}

// concatenate makes a file of partial uploads, all of which are complete.
func (c *call) concatenate(in creation) error {
	if c.by != nil { // who has no partial ones
		return drive.Bad(concatHeader, drive.NotAllowed, "allowed", []string{})
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
	return c.created(upload.Position{State: upload.Done}, view.ID) // or sealing: it does not expire
}
