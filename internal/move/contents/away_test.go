package contents

import (
	"bytes"
	"context"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// awayStore is a store that fails while gone is set.
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

// awayStaging is a staging that fails while gone is set.
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

func (a awayStaging) Load(ctx context.Context, ref blob.Ref) (blob.Staged, error) {
	if *a.gone {
		return blob.Staged{}, drive.Fail(drive.Unavailable)
	}
	return a.Staging.Load(ctx, ref)
}

// While the follower is down, an upload begins at the leader and stays there. An existing upload is
// found. No upload begins while the leader is down.
func TestUploadBeginsWhileFollowerIsDown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var gone [2]bool
	first, second := *s.pair.Side(First), *s.pair.Side(Second)
	first.Staging, second.Staging = awayStaging{first.Staging, &gone[First]}, awayStaging{second.Staging, &gone[Second]}
	s.pair = NewPair(first)
	s.pair.Attach(second)
	for _, lead := range []SideIndex{First, Second} {
		s.pair.SetLeader(lead)
		gone[lead.Other()] = true
		ref := blobtest.NewRef(blobtest.PartSize)
		for range 2 { // again after a restart
			if err := s.pair.Uploads.Create(t.Context(), ref); err != nil {
				t.Errorf("side %d leads: %v", lead, err)
			}
			s.pair.uploadSides.clear()
		}
		if _, err := s.pair.Uploads.Load(t.Context(), ref); err != nil {
			t.Errorf("side %d leads, and the upload is not found: %v", lead, err)
		}
		gone[lead.Other()], gone[lead] = false, true
		if err := s.pair.Uploads.Create(t.Context(), blobtest.NewRef(blobtest.PartSize)); !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("side %d leads and is away: %v", lead, err)
		}
		gone[lead] = false
		s.pair.SetLeader(lead.Other())
		if err := s.pair.Uploads.Create(t.Context(), ref); err != nil {
			t.Error(err)
		}
		if _, err := s.pair.Side(lead.Other()).Staging.Load(t.Context(), ref); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("it is at both sides: %v", err)
		}
	}
}

// While the follower is down, contents at the leader are settled and uploads there are removed,
// also by a process without cache. Other operations wait for the follower.
func TestFollowerDown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	gone := false
	second := *s.pair.Side(Second)
	second.Store, second.Staging = awayStore{second.Store, &gone}, awayStaging{second.Staging, &gone}
	s.pair.Attach(second)
	lay := func() string {
		b, name := blobtest.Bytes(1, 1000), blobtest.PutName()
		if _, err := s.pair.Blobs.PutUnsynced(t.Context(), name, blobtest.BodyOf(0, len(b), bytes.NewReader(b)), false); err != nil {
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
	s.pair.SetLeader(Second)
	thereName, there := lay(), begin()
	s.pair.SetLeader(First)
	name, here := lay(), begin()
	s.pair.uploadSides.clear() // as after a restart

	gone = true
	if err := s.pair.Blobs.Sync(t.Context(), []string{name}); err != nil {
		t.Errorf("settle what is here: %v", err)
	}
	if err := s.pair.Blobs.Sync(t.Context(), []string{name, thereName}); !drive.IsKind(err, drive.Unavailable) {
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
	if err := s.pair.Blobs.Sync(t.Context(), []string{name, thereName}); err != nil {
		t.Error(err)
	}
	if err := s.pair.Uploads.Remove(t.Context(), there); err != nil {
		t.Error(err)
	}
	if _, err := s.pair.Side(Second).Staging.Load(t.Context(), there); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("it is there still: %v", err)
	}
}
