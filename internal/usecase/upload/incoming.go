package upload

import (
	"context"
	"io"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
)

// Incoming is a small file whose content is stored, and that nobody sees yet: for those who publish
// many of them at once. Each one is given to Publish or to Drop, once.
type Incoming struct{ a *arrival }

// Outcome says what Publish has come to: as PutFile.
func (in *Incoming) Outcome() (n tree.Node, created bool, err error) {
	return in.a.placed.Node, in.a.placed.Created, in.a.err()
}

// Stored is Outcome of one that succeeded, as PutWhole returns it.
func (in *Incoming) Stored() Stored { return in.a.stored() }

// StoreFile stores the content of a file of up to one part, and of known length. p.Check is asked
// as PutFile does, before the body is read: it does not see what others that were stored before and
// are not published will have changed. Several may be stored at the same time.
//
// Errors: as PutFile, but for those that depend on the place and on the quota; those come with
// Publish.
func (s *Sessions) StoreFile(ctx context.Context, who drive.Who, p PutFile, body io.Reader) (*Incoming, error) {
	if p.Size == blob.UnknownSize || p.Size > s.opt.PartSize {
		return nil, drive.Fail(drive.TooLarge, "field", "size", "limit", s.opt.PartSize, "sent", p.Size)
	}
	f, err := s.newFile(ctx, who, p)
	if err != nil {
		return nil, err
	}
	a, err := s.small.bring(ctx, f, p.quick(), body)
	if err != nil {
		return nil, err
	}
	return &Incoming{a}, nil
}

// Publish makes files of one account visible, in their order, by few transactions. Each succeeds or
// fails alone: see Outcome. The content of one that fails is removed. A crash leaves some of the
// first of them, each whole.
func (s *Sessions) Publish(ctx context.Context, files ...*Incoming) {
	all := make([]*arrival, len(files))
	for i, in := range files {
		all[i] = in.a
	}
	s.small.publish(ctx, all)
}

// Drop removes the content of a file that will not be published.
func (s *Sessions) Drop(ctx context.Context, in *Incoming) error { return s.small.drop(ctx, in.a) }
