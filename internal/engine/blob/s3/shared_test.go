package s3

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// newPair returns two instances over the same bucket and Redis.
func newPair(t *testing.T) (a, b *Bucket) {
	t.Helper()
	o := testOptions(t)
	return bucketAt(t, o), bucketAt(t, o)
}

func TestTwoInstancesWriteOneUpload(t *testing.T) {
	t.Parallel()
	a, b := newPair(t)
	ref, file := newUpload(t, a.Staging)
	noError(t, b.Staging.Create(t.Context(), ref)) // it is there
	send(t, a.Staging, ref, 0, slicePart(file, 0))
	send(t, b.Staging, ref, 1, slicePart(file, 1))
	for _, s := range []*Staging{a.Staging, b.Staging} {
		got, err := s.Load(t.Context(), ref)
		if err != nil || len(got.Parts) != 2 || got.Held != ref.Size || got.Now == 0 || got.Last > got.Now {
			t.Errorf("%+v, %v", got, err)
		}
	}
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	noError(t, a.Staging.Seal(t.Context(), ref, ref.Size))
	wantContent(t, a, ref, file)
}

func TestPartIsLeasedToOneInstance(t *testing.T) {
	t.Parallel()
	a, b := newPair(t)
	ref, file := newUpload(t, a.Staging)
	p, done := startWrite(t, a.Staging, ref, 0, slicePart(file, 0))
	_, err := blobtest.Send(t.Context(), b.Staging, ref, 1, 0, slicePart(file, 0))
	wantKind(t, err, drive.InProgress)
	wantKind(t, b.Staging.Drop(t.Context(), ref, 1, 0), drive.InProgress)
	wantKind(t, b.Staging.Seal(t.Context(), ref, ref.Size), drive.InProgress)
	if got, err := b.Staging.Load(t.Context(), ref); err != nil || got.Writing != 1 {
		t.Errorf("%d parts are being written, %v", got.Writing, err)
	}
	p.open <- nil
	noError(t, <-done)
	_, err = blobtest.Send(t.Context(), b.Staging, ref, 1, 0, slicePart(file, 0))
	if there, ok := errors.AsType[*blob.PartExistsError](err); !ok || there.Part.CV.IsZero() {
		t.Errorf("a part that the other has brought: %v", err)
	}
}

// TestSlowWriteRenewsLease sends a part for longer than a lease lasts; its expiry must advance in
// Redis and in the process.
func TestSlowWriteRenewsLease(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]drive.ByteSize{"of declared length": testPart, "of undeclared length": blob.UnknownSize} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := newPair(t)
			ref, file := newUpload(t, a.Staging)
			p, done := startWriteOf(t, a.Staging, ref, blob.Write{N: 0, Gen: 1, Size: size}, slicePart(file, 0))
			for range 2 {
				before := leaseEnd(t, a.Staging, ref, 0)
				eventually(t, func() error {
					if end := leaseEnd(t, a.Staging, ref, 0); !end.After(before) {
						return fmt.Errorf("it still ends at %v", end)
					}
					return nil
				})
				_, err := blobtest.Send(t.Context(), b.Staging, ref, 1, 0, slicePart(file, 0))
				wantKind(t, err, drive.InProgress)
			}
			p.open <- nil
			noError(t, <-done)
		})
	}
}

func TestRenewExtendsLease(t *testing.T) {
	t.Parallel()
	a, _ := newPair(t)
	ref, _ := newUpload(t, a.Staging)
	l, err := a.Staging.claim(t.Context(), ref, blob.Write{N: 0, Gen: 1, Size: testPart}, "write")
	noError(t, err)
	until := l.until.Load()
	noError(t, a.Staging.renew(t.Context(), l))
	if l.until.Load() <= until {
		t.Error("who has the lease does not know that it lasts longer")
	}
}

// TestLateDropRemovesNothing: a delayed Drop must not remove a part that was accepted since.
func TestLateDropRemovesNothing(t *testing.T) {
	t.Parallel()
	a, _ := newPair(t)
	ref, file := newUpload(t, a.Staging)
	send(t, a.Staging, ref, 0, slicePart(file, 0))
	old, err := a.Staging.j.entry(t.Context(), ref.ID, 0)
	noError(t, err)
	noError(t, a.Staging.Drop(t.Context(), ref, 1, 0))
	send(t, a.Staging, ref, 0, blobtest.Bytes(8, testPart))
	_, err = a.Staging.claim(t.Context(), ref, blob.Write{N: 0, Gen: 1}, "drop", old)
	wantKind(t, err, drive.Unavailable)
	if got, err := a.Staging.Load(t.Context(), ref); err != nil || len(got.Parts) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFenceStopsWritesOfOtherInstance(t *testing.T) {
	t.Parallel()
	a, b := newPair(t)
	ref, file := newUpload(t, a.Staging)
	send(t, a.Staging, ref, 1, slicePart(file, 1))
	p, done := startWrite(t, a.Staging, ref, 0, slicePart(file, 0))
	got, err := b.Staging.Fence(t.Context(), ref, 1)
	if err != nil || len(got.Parts) != 1 || got.Writing != 0 {
		t.Fatalf("fenced: %+v, %v", got, err)
	}
	p.open <- nil
	wantKind(t, <-done, drive.WrongState)
	if after, err := b.Staging.Load(t.Context(), ref); err != nil || len(after.Parts) != 1 || after.Held < got.Held {
		t.Errorf("after the fence: %+v, %v", after, err)
	}
	_, err = blobtest.Send(t.Context(), a.Staging, ref, 2, 0, slicePart(file, 0))
	noError(t, err)
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, file)
}

func TestLeaseOfDeadInstanceExpires(t *testing.T) {
	t.Parallel()
	a, b := newPair(t)
	ref, file := newUpload(t, a.Staging)
	// An instance that dies in the middle of a part leaves just its lease.
	leaseBriefly(t, a.Staging, ref, 0)
	end := leaseEnd(t, a.Staging, ref, 0)
	if now := time.Now(); end.After(now.Add(testLease)) {
		t.Errorf("at %v it ends at %v, the lease is %s", now, end, testLease)
	}
	sendWhenFree(t, b.Staging, ref, 0, slicePart(file, 0))
	if now := time.Now(); now.Before(end) {
		t.Errorf("taken over by %v, it ended at %v", now, end)
	}
	send(t, b.Staging, ref, 1, slicePart(file, 1))
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, file)
}

// TestWriteWithExpiredLeaseIsNotAccepted unfreezes an instance after another one has taken over its
// part.
func TestWriteWithExpiredLeaseIsNotAccepted(t *testing.T) {
	t.Parallel()
	a, b := newPair(t)
	ref, file := newUpload(t, a.Staging)
	frozen := leaseBriefly(t, a.Staging, ref, 0)
	eventually(t, func() error { return frozenIsOver(frozen) })
	want := sendWhenFree(t, b.Staging, ref, 0, slicePart(file, 0))

	other := blobtest.Bytes(7, testPart)
	etag, err := a.putPart(t.Context(), ref.ID, frozen.mpu, 0, onlyReader(other), int64(testPart))
	noError(t, err)
	e := entry{Part: partOf(t, 0, other), gen: 1, etag: etag}
	err = a.Staging.accept(t.Context(), ref, frozen, e)
	if there, ok := errors.AsType[*blob.PartExistsError](err); !ok || there.Part != want {
		t.Fatalf("entered without a lease: %v", err)
	}
	// Its bytes lie where the others were: they never become content.
	wantKind(t, b.Staging.Seal(t.Context(), ref, testPart), drive.PartsMissing)
	send(t, b.Staging, ref, 0, slicePart(file, 0))
	send(t, b.Staging, ref, 1, slicePart(file, 1))
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, file)
}

// sendWhenFree sends a part as soon as no lease prevents it, because a former lease holder notices
// the loss a little before Redis does.
func sendWhenFree(t *testing.T, s *Staging, ref blob.Ref, n int, b []byte) (part blob.Part) {
	t.Helper()
	eventually(t, func() (err error) {
		part, err = blobtest.Send(t.Context(), s, ref, 1, n, b)
		return err
	})
	return part
}

func frozenIsOver(l *lease) error {
	if l.checkHeld() == nil {
		return errors.New("the lease lasts")
	}
	return nil
}

// TestEqualBytesOfTwoInstancesAreOnePart accepts the part in either order.
func TestEqualBytesOfTwoInstancesAreOnePart(t *testing.T) {
	t.Parallel()
	a, b := newPair(t)
	ref, file := newUpload(t, a.Staging)
	frozen := leaseBriefly(t, a.Staging, ref, 0)
	eventually(t, func() error { return frozenIsOver(frozen) })
	part := sendWhenFree(t, b.Staging, ref, 0, slicePart(file, 0))
	etag, err := a.putPart(t.Context(), ref.ID, frozen.mpu, 0, onlyReader(slicePart(file, 0)), int64(testPart))
	noError(t, err)
	noError(t, a.Staging.accept(t.Context(), ref, frozen, entry{Part: part, gen: 1, etag: etag}))
	send(t, a.Staging, ref, 1, slicePart(file, 1))
	noError(t, a.Staging.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, file)
}

func TestLateWriteLeavesNoMultipartUpload(t *testing.T) {
	t.Parallel()
	a, b := newPair(t)
	ref, file := newUpload(t, a.Staging)
	send(t, b.Staging, ref, 1, slicePart(file, 1))
	p, done := startWrite(t, a.Staging, ref, 0, slicePart(file, 0))
	noError(t, b.Staging.Remove(t.Context(), ref))
	p.open <- nil
	wantKind(t, <-done, drive.NotFound)
	// Also one whose bytes the store has taken before the abort, or has kept in spite of it.
	l := &lease{id: ref.ID, token: "late", mpu: "gone", incarnation: "gone"}
	wantKind(t, a.Staging.accept(t.Context(), ref, l, entry{Part: partOf(t, 0, file[:10]), gen: 1, etag: "x"}), drive.NotFound)
	wantNothingStaged(t, a)
}
