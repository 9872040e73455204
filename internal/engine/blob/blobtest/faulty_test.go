package blobtest

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/local"
)

func openFaulty(t *testing.T) Faulty {
	t.Helper()
	d, err := local.Open(t.Context(), local.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	noError(t, err)
	t.Cleanup(func() { noError(t, d.Close()) })
	return Faulty{d.Staging, new(Faults)}
}

var errFault = errors.New("fault")

func TestFaultsFailTheNthCall(t *testing.T) {
	t.Parallel()
	s := openFaulty(t)
	ref, file := newUpload(t, s)
	s.Fail("Write", 2, errFault)
	send(t, s, ref, 1, 0, Slice(file, 0))
	if _, err := Send(t.Context(), s, ref, 1, 1, Slice(file, 1)); !errors.Is(err, errFault) {
		t.Errorf("the second call gave %v", err)
	}
	wantParts(t, s, ref, PartOf(t, 0, Slice(file, 0)))
	send(t, s, ref, 1, 1, Slice(file, 1))
	if got := s.Calls("Write"); got != 3 {
		t.Errorf("%d calls counted, want 3", got)
	}
}

func TestFaultsLoseTheReply(t *testing.T) {
	t.Parallel()
	s := openFaulty(t)
	ref, file := newUpload(t, s)
	s.LoseReply("Write", 1, errFault)
	if _, err := Send(t.Context(), s, ref, 1, 0, Slice(file, 0)); !errors.Is(err, errFault) {
		t.Errorf("the call gave %v", err)
	}
	wantParts(t, s, ref, PartOf(t, 0, Slice(file, 0)))
}

func TestFaultsHoldUntilReleasedOrCancelled(t *testing.T) {
	t.Parallel()
	s := openFaulty(t)
	ref, _ := completeUpload(t, s)
	reached, release := s.Hold("Seal", 1)
	done := make(chan error)
	go func() { done <- s.Seal(t.Context(), ref, ref.Size) }()
	<-reached
	noError(t, s.Seal(t.Context(), ref, ref.Size)) // another call passes
	release()
	noError(t, <-done)

	reached, _ = s.Hold("Seal", 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.Seal(ctx, ref, ref.Size) }()
	<-reached
	cancel()
	wantKind(t, <-done, drive.Unavailable)
}

func TestFaultsFailAllUntilCleared(t *testing.T) {
	t.Parallel()
	s := openFaulty(t)
	s.FailAll("Create", drive.Fail(drive.DiskFull))
	for range 3 {
		wantKind(t, s.Create(t.Context(), NewRef(1)), drive.DiskFull)
	}
	s.Clear()
	noError(t, s.Create(t.Context(), NewRef(1)))
}
