package upload

import (
	"context"
	"io"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
)

// PendingPut is a stored small file that is not published yet, for callers that publish many at
// once. The caller passes it to Publish or Drop, exactly once.
type PendingPut struct{ a *pendingFile }

// Result returns the node of the published file, whether it is new rather than a version of an
// existing file, and the error that refused it. Before Publish has returned the error is
// Unavailable.
func (in *PendingPut) Result() (n tree.Node, created bool, err error) {
	return in.a.placed.Node, in.a.placed.Created, in.a.err()
}

// Stored returns the published node and whether it is new. Call it only after Publish, if Result
// has no error.
func (in *PendingPut) Stored() Stored { return in.a.stored() }

// StoreFile stores the content of a file of known size and at most one part (else TooLarge),
// without making it visible. The caller passes the result to Publish or Drop. StoreFile calls
// p.Check before it reads the body; Check does not see files that are not published yet. It may be
// called concurrently.
//
// Errors: DigestMismatch, DiskFull, BadRequest {field body, reason cut}, and that of p.Check.
// Publish reports NameTaken, Quota and other errors of the target.
func (s *Sessions) StoreFile(ctx context.Context, who drive.Who, p PutFile, body io.Reader) (*PendingPut, error) {
	if p.Size == blob.UnknownSize || p.Size > s.opt.PartSize {
		return nil, drive.Fail(drive.TooLarge, "field", "size", "limit", s.opt.PartSize, "sent", p.Size)
	}
	f, err := s.newFile(ctx, who, p)
	if err != nil {
		return nil, err
	}
	a, err := s.smallFiles.storeContent(ctx, f, p.quick(), body)
	if err != nil {
		return nil, err
	}
	return &PendingPut{a}, nil
}

// Publish makes files of one account visible, in their order, in few transactions. Each succeeds or
// fails alone: see Result. The contents of failed files are removed. After a crash a prefix of the
// files is published.
func (s *Sessions) Publish(ctx context.Context, files ...*PendingPut) {
	all := make([]*pendingFile, len(files))
	for i, in := range files {
		all[i] = in.a
	}
	s.smallFiles.publish(ctx, all)
}

// Drop removes the content of a file that will not be published and releases its disk space, even
// if ctx has ended. The caller calls Drop or Publish for a PendingPut, once, and does not use it
// after Drop. A failed removal is returned; fsck then finds the content.
func (s *Sessions) Drop(ctx context.Context, in *PendingPut) error {
	return s.smallFiles.drop(ctx, in.a)
}
