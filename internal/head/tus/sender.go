package tus

import (
	"context"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/upload"
)

// Sender is what is different for the sender of a collect link: uploads of a known length, one file
// each, into the link's folder under a free name; and nobody else's are there.
type Sender interface {
	// Begin is what a begin means, and the transaction that lets it begin if the link has room. The
	// digests are verified in the end, and link nothing.
	Begin(b upload.Begin, declared digest.Set) (upload.Begin, upload.Once[upload.View], error)
	// Owns is NotFound for an upload that the sender has not begun.
	Owns(ctx context.Context, id drive.UploadID) error
	// Still is Gone {reason} when the link has been closed since the request came.
	Still(ctx context.Context) error
	// Completing is what a complete without changes means.
	Completing(ctx context.Context, id drive.UploadID) (upload.Complete, error)
	// Told is what the sender is told of an error: Gone {reason} when the link has been closed, and
	// nothing of what is the owner's business.
	Told(ctx context.Context, err error) error
}

func (c *call) owns(id drive.UploadID) error {
	if c.by == nil {
		return nil
	}
	return c.by.Owns(c.r.Context(), id)
}

func (c *call) told(err error) error {
	if c.by == nil || err == nil {
		return err
	}
	return c.by.Told(c.r.Context(), err)
}

// begin is the begin of a creation. For a sender what was declared belongs to it, and is not to be
// declared once more.
func (c *call) begin(in *creation) (upload.View, error) {
	b, once := in.begin, upload.Once[upload.View](nil)
	if c.by != nil {
		if in.concat.partial {
			return upload.View{}, drive.Bad(concatHeader, drive.NotAllowed, "allowed", []string{})
		}
		var err error
		if b, once, err = c.by.Begin(b, in.sums); err != nil {
			return upload.View{}, err
		}
		in.sums = nil
	}
	return c.Uploads.Begin(c.r.Context(), c.who, b, once)
}

// completing is what completing an upload means.
func (c *call) completing(id drive.UploadID) (upload.Complete, error) {
	if c.by == nil {
		return upload.Complete{}, nil
	}
	return c.by.Completing(c.r.Context(), id)
}
