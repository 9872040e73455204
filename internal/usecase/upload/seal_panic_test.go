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

// brokenSeal panics in Seal while it is broken.
type brokenSeal struct {
	blob.Staging
	broken atomic.Bool
}

func (s *brokenSeal) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	if s.broken.Load() {
		panic("a defect")
	}
	return s.Staging.Seal(ctx, ref, size)
}

// A panic in a seal ends the attempt, not the process; the next attempt succeeds.
func TestPanicEndsSealAttempt(t *testing.T) {
	t.Parallel()
	staging := &brokenSeal{}
	staging.broken.Store(true)
	s := uploadtest.New(t, uploadtest.Options{Staging: func(in blob.Staging) blob.Staging { staging.Staging = in; return staging }})
	who := s.Account(t, 0)
	v, err := s.Begin(t.Context(), who, upload.Begin{Path: drive.Path{"f"}, Size: 1000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	add(t, s.Sessions, who, v.ID, 0, random(1000))
	if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); !drive.IsKind(err, drive.Internal) {
		t.Fatalf("complete: %v", err)
	}
	staging.broken.Store(false)
	s.Clock.Advance(time.Minute)
	s.Fire(t)
	if done, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err != nil || done.Node == nil {
		t.Errorf("in the end it is %+v, %v", done, err)
	}
}
