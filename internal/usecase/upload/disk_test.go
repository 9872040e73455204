package upload_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// boundedStore is a store whose free bytes the test sets.
type boundedStore struct {
	blob.Store
	free *atomic.Int64
}

func (s boundedStore) Free(context.Context) (drive.ByteSize, error) {
	return drive.ByteSize(s.free.Load()), nil
}

// J: an account that declares the whole disk and sends nothing leaves half of it, and the promises
// to others are kept.
func TestAccountCannotHoldWholeDisk(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(int64(10*drive.MiB) + 1)
	s := uploadtest.New(t, uploadtest.Options{
		Upload: upload.Options{MinFree: 1}, Store: func(b blob.Store) blob.Store { return boundedStore{b, &free} },
	})
	greedy, other := s.Account(t, 0), s.Account(t, 0)
	begin := func(who drive.Who, path string, size drive.ByteSize) error {
		_, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, path), Size: size}, nil)
		return err
	}
	whole := s.Start(t, greedy, "/whole", 9*drive.MiB) // nobody else is there: it may
	mine := s.Start(t, other, "/mine", 4*drive.MiB)
	wantKind(t, begin(other, "/more", 2*drive.MiB), drive.DiskFull)
	wantKind(t, begin(greedy, "/more", 2*drive.MiB), drive.DiskFull)

	send := func(who drive.Who, v upload.View, n int) error {
		t.Helper()
		err := s.Send(t, who, v, n, random(9*mib))
		if err == nil {
			free.Add(-int64(v.PartSize))
		}
		return err
	}
	const theirs = 3 // parts of 2 MiB that the disk holds beside the other's 4 MiB
	for n := range theirs {
		if err := send(greedy, whole, n); err != nil {
			t.Fatalf("part %d: %v", n, err)
		}
	}
	wantKind(t, send(greedy, whole, theirs), drive.DiskFull)
	for n := range 2 {
		if err := send(other, mine, n); err != nil {
			t.Fatal(err)
		}
	}
	wantKind(t, send(greedy, whole, theirs), drive.DiskFull) // the disk is full
	free.Store(int64(20 * drive.MiB))
	if err := send(greedy, whole, theirs); err != nil {
		t.Errorf("with room for both: %v", err)
	}
	for who, v := range map[drive.Who]upload.View{greedy: whole, other: mine} {
		if err := s.Cancel(t.Context(), who, v.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.AdvanceAndFire(t, time.Minute)
	if p := s.Promised(); p != 0 {
		t.Errorf("%d bytes are promised to nobody", p)
	}
}
