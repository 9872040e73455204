package tus

import (
	"context"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
)

// Sender adapts requests that come by a collect link, by which people without an account send files
// into a folder of its owner. The uploads go into that folder under a free name and have a known
// length. A sender cannot address uploads of others.
type Sender interface {
	// Begin returns b adapted to the link, and the Once to pass to Sessions.Begin, which begins the
	// upload only if the link has room. Declared digests are verified at the end; they never link
	// content that the server already has.
	Begin(b upload.Begin, declared digest.Set) (upload.Begin, upload.Once[upload.View], error)
	// CheckOwner returns NotFound for an upload that the sender has not begun.
	CheckOwner(ctx context.Context, id drive.UploadID) error
	// CheckOpen returns Gone {reason} if the link was closed since the request arrived.
	CheckOpen(ctx context.Context) error
	// CompleteRequest returns the request with which to complete an upload of the link. It fails if
	// the link no longer accepts files.
	CompleteRequest(ctx context.Context, id drive.UploadID) (upload.Complete, error)
	// TranslateError returns the error as the sender may see it: Gone {reason} if the link was
	// closed, and nothing about the owner's account.
	TranslateError(ctx context.Context, err error) error
}

// owns returns drive.NotFound if the request comes from a sender who did not begin the upload. For
// users it returns nil; upload.Sessions checks them.
func (c *call) owns(id drive.UploadID) error {
	if c.sender == nil {
		return nil
	}
	return c.sender.CheckOwner(c.r.Context(), id)
}

// redact returns err in the form that a sender of a collect link may see. For users, and for nil,
// it returns err.
func (c *call) redact(err error) error {
	if c.sender == nil || err == nil {
		return err
	}
	return c.sender.TranslateError(c.r.Context(), err)
}

// begin begins the upload that a creation describes. For a sender, it passes the declared digests
// to Sender.Begin and clears in.sums, and refuses partial uploads. It fails with the error of
// beginning, such as drive.Quota.
func (c *call) begin(in *creation) (upload.View, error) {
	b, once := in.begin, upload.Once[upload.View](nil)
	if c.sender != nil {
		if in.concat.partial {
			return upload.View{}, drive.BadField(concatHeader, drive.NotAllowed, "allowed", []string{})
		}
		var err error
		if b, once, err = c.sender.Begin(b, in.sums); err != nil {
			return upload.View{}, err
		}
		in.sums = nil
	}
	return c.Uploads.Begin(c.r.Context(), c.who, b, once)
}

// completing returns the Complete request for an upload of the caller: empty for users, that of the
// link for senders. It fails if the link no longer accepts files.
func (c *call) completing(id drive.UploadID) (upload.Complete, error) {
	if c.sender == nil {
		return upload.Complete{}, nil
	}
	return c.sender.CompleteRequest(c.r.Context(), id)
}
