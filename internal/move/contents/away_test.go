package contents

import (
	"bytes"
	"context"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/blobtest"
)

// awayStore does not answer while gone is set.
type awayStore struct {
	blob.Store
	gone *bool
}

func (a awayStore) Stat(ctx context.Context, name string) (drive.ByteSize, error) {
	if *a.gone {
		return 0, drive.Fail(drive.Unavailable)
	}
	return a.Store.Stat(ctx, name)
}

// awayStaging does not answer while gone is set.
type awayStaging struct {
	blob.Staging
	gone *bool
}

func (a awayStaging) Remove(ctx context.Context, ref blob.Ref) error {
	if *a.gone {
		return drive.Fail(drive.Unavailable)
	}
	return a.Staging.Remove(ctx, ref)
}

// While the side that follows is away, what was laid at the one that leads is settled, and an
// upload that is there is removed, also by a process that does not know where it is. What only the
// other one can have waits for it.
func TestTheFollowerIsAway(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	gone := false
	second := *s.pair.Side(Second)
	second.Store, second.Staging = awayStore{second.Store, &gone}, awayStaging{second.Staging, &gone}
	s.pair.Attach(second)
	lay := func() string {
		b, name := blobtest.Bytes(1, 1000), blobtest.PutName()
		if _, err := s.pair.Blobs.Lay(t.Context(), name, blobtest.BodyOf(0, len(b), bytes.NewReader(b))); err != nil {
			t.Fatal(err)
		}
		return name
	}
	begin := func() blob.Ref {
		ref := blobtest.NewRef(blobtest.PartSize)
		if err := s.pair.Uploads.Create(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		return ref
	}
	s.pair.Lead(Second)
	thereName, there := lay(), begin()
	s.pair.Lead(First)
	name, here := lay(), begin()
	s.pair.where.clear() // as after a restart

	gone = true
	if err := s.pair.Blobs.Settle(t.Context(), []string{name}); err != nil {
		t.Errorf("settle what is here: %v", err)
	}
	if err := s.pair.Blobs.Settle(t.Context(), []string{name, thereName}); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("settle what may be there: %v", err)
	}
	if err := s.pair.Uploads.Remove(t.Context(), here); err != nil {
		t.Errorf("remove what is here: %v", err)
	}
	if _, err := s.pair.Side(First).Staging.Load(t.Context(), here); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("it is there still: %v", err)
	}
	if err := s.pair.Uploads.Remove(t.Context(), there); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("remove what may be there: %v", err)
	}

	gone = false
	if err := s.pair.Blobs.Settle(t.Context(), []string{name, thereName}); err != nil {
		t.Error(err)
	}
	if err := s.pair.Uploads.Remove(t.Context(), there); err != nil {
		t.Error(err)
	}
	if _, err := s.pair.Side(Second).Staging.Load(t.Context(), there); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("it is there still: %v", err)
	}
}
