package blobtest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// RunStaging checks a blob.Staging. open returns an empty one for each subtest.
func RunStaging(t *testing.T, open func(t *testing.T) blob.Staging) {
	for name, check := range map[string]func(*testing.T, blob.Staging){
		"only Create makes an upload, all else is NotFound":                      onlyCreate,
		"Create of one that exists keeps its parts":                              createAgain,
		"parts come in any order, in parallel, and are loaded in order of N":     anyOrder,
		"a part that came with another declared length is not taken":             wrongLength,
		"a part outside of the file is PartRange, one beyond its end PartSize":   outside,
		"a torn part leaves nothing and frees its bytes":                         torn,
		"a wrong digest leaves nothing":                                          wrongDigest,
		"a failed rewrite takes the accepted part with it, or is refused":        failedRewrite,
		"a refused rewrite leaves the accepted part":                             refusedRewrite,
		"a rewrite replaces the accepted part, or is refused":                    rewrite,
		"an ended context leaves nothing":                                        endedContext,
		"bytes that all arrived are accepted although the client is gone":        goneClient,
		"a second Write of a running part is InProgress and changes nothing":     second,
		"Drop frees the bytes, is repeatable, and waits its turn":                dropping,
		"a fenced gen is refused for Write and Drop, a later one is not":         fencing,
		"Fence waits for running Writes and reports what they brought":           fenceWaits,
		"Fence whose context ends leaves the gen refused and can be repeated":    fenceEnds,
		"Remove deletes, is repeatable, and takes the place from running Writes": removing,
		"an upload of unknown length takes parts up to their slot":               unknownLength,
		"Held is never less than the parts and never more than what was sent":    held,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t))
		})
	}
}

// newUpload returns a new staged upload of three parts, the last one short, and the bytes of its
// file.
func newUpload(t *testing.T, s blob.Staging) (blob.Ref, []byte) {
	t.Helper()
	file := Bytes(1, 2*partSize(s)+5000)
	ref := newRef(s, drive.ByteSize(len(file)))
	noError(t, s.Create(t.Context(), ref))
	return ref, file
}

// send writes a part like a client: it retries if the store is Unavailable, which real stores
// sometimes are (see isMisread of package s3).
func send(t *testing.T, s blob.Staging, ref blob.Ref, gen int64, n int, b []byte) {
	t.Helper()
	got, err := Send(t.Context(), s, ref, gen, n, b)
	for tries := 1; drive.IsKind(err, drive.Unavailable) && tries < 3; tries++ {
		got, err = Send(t.Context(), s, ref, gen, n, b)
	}
	noError(t, err)
	if diff := cmp.Diff(partOf(t, ref, n, b), got); diff != "" {
		t.Fatalf("part %d (-want +got):\n%s", n, diff)
	}
}

// wantParts checks that the upload has exactly the given parts, and returns its state.
func wantParts(t *testing.T, s blob.Staging, ref blob.Ref, want ...blob.Part) blob.Staged {
	t.Helper()
	got, err := s.Load(t.Context(), ref)
	noError(t, err)
	if diff := cmp.Diff(append([]blob.Part{}, want...), append([]blob.Part{}, got.Parts...)); diff != "" {
		t.Fatalf("parts (-want +got):\n%s", diff)
	}
	return got
}

// onlyCreate checks that every call but Remove fails with NotFound for an upload that was never
// created.
func onlyCreate(t *testing.T, s blob.Staging) {
	ref, ctx := newRef(s, partSize(s)), t.Context()
	_, err := Send(ctx, s, ref, 1, 0, Bytes(1, ref.PartSize))
	wantKind(t, err, drive.NotFound)
	wantKind(t, s.Drop(ctx, ref, 1, 0), drive.NotFound)
	_, err = s.Load(ctx, ref)
	wantKind(t, err, drive.NotFound)
	_, err = s.Fence(ctx, ref, 1)
	wantKind(t, err, drive.NotFound)
	noError(t, s.Remove(ctx, ref))
}

// createAgain checks that a repeated Create keeps the accepted parts.
func createAgain(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	send(t, s, ref, 1, 0, slice(ref, file, 0))
	noError(t, s.Create(t.Context(), ref))
	wantParts(t, s, ref, partOf(t, ref, 0, slice(ref, file, 0)))
}

// anyOrder checks that parts may be written concurrently in any order, and what Load returns
// afterwards.
func anyOrder(t *testing.T, s blob.Staging) {
	parts := int(min(12, 40*drive.MiB/partSize(s)))
	file := Bytes(2, drive.ByteSize(parts)*partSize(s)-1)
	ref := newRef(s, drive.ByteSize(len(file)))
	noError(t, s.Create(t.Context(), ref))
	var all sync.WaitGroup
	for _, n := range rand.Perm(parts) {
		all.Go(func() {
			if _, err := Send(t.Context(), s, ref, 1, n, slice(ref, file, n)); err != nil {
				t.Errorf("part %d: %v", n, err)
			}
		})
	}
	all.Wait()
	var want []blob.Part
	for n := range parts {
		want = append(want, partOf(t, ref, n, slice(ref, file, n)))
	}
	got := wantParts(t, s, ref, want...)
	if got.Last == 0 || got.Suspect || got.Held != drive.ByteSize(len(file)) {
		t.Errorf("last %v, suspect %v, held %d of %d bytes", got.Last, got.Suspect, got.Held, len(file))
	}
}

// wrongLength checks that a body of another length or part number than the Write announces is
// refused.
func wrongLength(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 0)
	w := WriteOf(1, 0, b[1:])
	if _, err := s.Write(t.Context(), ref, w, bodyOf(ref, 0, len(b), bytes.NewReader(b))); err == nil {
		t.Error("a body longer than the Write says is taken")
	}
	w = WriteOf(1, 1, b)
	if _, err := s.Write(t.Context(), ref, w, bodyOf(ref, 0, len(b), bytes.NewReader(b))); err == nil {
		t.Error("the body of another part is taken")
	}
	wantParts(t, s, ref)
}

// outside checks that parts outside of the upload fail with PartRange, and parts of a wrong size
// with PartSize.
func outside(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	for _, n := range []int{-1, 3, 1 << 30} {
		b := file[:10]
		_, err := s.Write(t.Context(), ref, WriteOf(1, n, b), bodyOf(ref, 0, len(b), bytes.NewReader(b)))
		wantKind(t, err, drive.PartRange)
	}
	_, err := Send(t.Context(), s, ref, 1, 2, Bytes(3, 5001))
	wantKind(t, err, drive.PartSize)
	_, err = Send(t.Context(), s, ref, 1, 0, Bytes(3, ref.PartSize+1))
	wantKind(t, err, drive.PartSize)
	wantParts(t, s, ref)
}

// torn checks that a part whose body is cut off is not accepted, its bytes are freed, and it can be
// sent again.
func torn(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	send(t, s, ref, 1, 2, slice(ref, file, 2))
	b := slice(ref, file, 1)
	_, err := s.Write(t.Context(), ref, WriteOf(1, 1, b), bodyOf(ref, 1, len(b), cutReader(b[:600_000])))
	if err == nil {
		t.Fatal("a torn part is accepted")
	}
	got := wantParts(t, s, ref, partOf(t, ref, 2, slice(ref, file, 2)))
	if got.Held > 64<<10 {
		t.Errorf("held %d bytes after a torn part", got.Held)
	}
	_, err = s.Write(t.Context(), ref, WriteOf(1, 1, b), bodyOf(ref, 1, len(b), bytes.NewReader(b[1:])))
	wantKind(t, err, drive.PartSize)
	send(t, s, ref, 1, 1, b)
}

// wrongBody returns a body whose bytes do not match its Content-Digest.
func wrongBody(b []byte) blob.Body {
	declared, err := digest.ParseContentDigest("crc32c=:AAAAAA==:")
	if err != nil {
		panic(err)
	}
	return blob.NewBody(bytes.NewReader(b), blob.BodyOptions{
		Size: drive.ByteSize(len(b)), Verify: digest.NewVerifier(declared),
	})
}

// wrongDigest checks that a body with a wrong digest fails with DigestMismatch and its bytes are
// freed.
func wrongDigest(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 0)
	_, err := s.Write(t.Context(), ref, WriteOf(1, 0, b), wrongBody(b))
	wantKind(t, err, drive.DigestMismatch)
	if got := wantParts(t, s, ref); got.Held > 64<<10 {
		t.Errorf("held %d bytes after a wrong part", got.Held)
	}
}

// failedRewrite checks that a failing Write of an accepted part returns blob.PartExistsError and
// keeps the part.
func failedRewrite(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 0)
	send(t, s, ref, 1, 0, b)
	_, err := s.Write(t.Context(), ref, WriteOf(1, 0, b), bodyOf(ref, 0, len(b), cutReader(b[:10])))
	wantThereError(t, s, ref, err, b)
}

// wantThereError fails the test unless err is a blob.PartExistsError for part 0 with bytes b, and
// this is still the only accepted part of ref.
func wantThereError(t *testing.T, s blob.Staging, ref blob.Ref, err error, b []byte) {
	t.Helper()
	want := partOf(t, ref, 0, b)
	there, ok := errors.AsType[*blob.PartExistsError](err)
	if !ok || there.Part != want {
		t.Fatalf("error is %v, want that the part is there", err)
	}
	wantParts(t, s, ref, want)
}

// refusedRewrite checks that a fenced or too long Write keeps the accepted part.
func refusedRewrite(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 0)
	send(t, s, ref, 2, 0, b)
	_, err := s.Fence(t.Context(), ref, 2)
	noError(t, err)
	_, err = Send(t.Context(), s, ref, 2, 0, Bytes(9, ref.PartSize))
	wantKind(t, err, drive.WrongState)
	_, err = Send(t.Context(), s, ref, 3, 0, Bytes(9, ref.PartSize+1))
	wantKind(t, err, drive.PartSize)
	wantParts(t, s, ref, partOf(t, ref, 0, b))
}

// rewrite checks that an accepted part is replaced only after it has been dropped.
func rewrite(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	send(t, s, ref, 1, 0, slice(ref, file, 0))
	b := Bytes(7, 1000)
	_, err := Send(t.Context(), s, ref, 1, 0, b)
	wantThereError(t, s, ref, err, slice(ref, file, 0))
	noError(t, s.Drop(t.Context(), ref, 1, 0))
	send(t, s, ref, 1, 0, b)
	wantParts(t, s, ref, partOf(t, ref, 0, b))
}

// endedContext checks that a Write whose context has ended fails with Unavailable and can be
// repeated.
func endedContext(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Write(ctx, ref, WriteOf(1, 0, b), bodyOf(ref, 0, len(b), bytes.NewReader(b)))
	wantKind(t, err, drive.Unavailable)
	wantParts(t, s, ref)
	send(t, s, ref, 1, 0, b)
}

// goneClient checks that a Write is accepted although its context ends after all bytes have
// arrived.
func goneClient(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 0)
	ctx, cancel := context.WithCancel(t.Context())
	g := newBlockingReader(b)
	done := make(chan error)
	go func() {
		_, err := s.Write(ctx, ref, WriteOf(1, 0, b), bodyOf(ref, 0, len(b), g))
		done <- err
	}()
	<-g.reached
	cancel()
	g.open <- nil
	noError(t, <-done)
	wantParts(t, s, ref, partOf(t, ref, 0, b))
}

// second checks that a second Write or Drop of a part fails with InProgress while the first Write
// runs.
func second(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 0)
	g, done := startWrite(t, s, ref, 1, 0, b)
	_, err := Send(t.Context(), s, ref, 1, 0, Bytes(8, ref.PartSize))
	wantKind(t, err, drive.InProgress)
	wantKind(t, s.Drop(t.Context(), ref, 1, 0), drive.InProgress)
	g.open <- nil
	noError(t, <-done)
	wantParts(t, s, ref, partOf(t, ref, 0, b))
}

// startWrite begins a Write and returns when all its bytes but not their end have been read.
func startWrite(t *testing.T, s blob.Staging, ref blob.Ref, gen int64, n int, b []byte) (*blockingReader, <-chan error) {
	g, done := newBlockingReader(b), make(chan error, 1)
	go func() {
		_, err := s.Write(t.Context(), ref, WriteOf(gen, n, b), bodyOf(ref, n, len(b), g))
		done <- err
	}()
	<-g.reached
	return g, done
}

// dropping checks that Drop, which may be repeated, removes one part and frees its bytes.
func dropping(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	for n := range 3 {
		send(t, s, ref, 1, n, slice(ref, file, n))
	}
	noError(t, s.Drop(t.Context(), ref, 1, 1))
	noError(t, s.Drop(t.Context(), ref, 1, 1))
	got := wantParts(t, s, ref, partOf(t, ref, 0, slice(ref, file, 0)), partOf(t, ref, 2, slice(ref, file, 2)))
	if limit := ref.PartSize + 5000 + 64<<10; got.Held > limit {
		t.Errorf("held %d bytes after a drop, want at most %d", got.Held, limit)
	}
}

// fencing checks that Fence refuses writers of its generation and lower ones, keeps the parts, and
// may be repeated or late.
func fencing(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	send(t, s, ref, 4, 0, slice(ref, file, 0))
	for _, gen := range []int64{5, 5, 3} { // repeated and late ones are harmless
		got, err := s.Fence(t.Context(), ref, gen)
		noError(t, err)
		if len(got.Parts) != 1 {
			t.Fatalf("%d parts after a fence", len(got.Parts))
		}
	}
	_, err := Send(t.Context(), s, ref, 5, 1, slice(ref, file, 1))
	wantKind(t, err, drive.WrongState)
	wantKind(t, s.Drop(t.Context(), ref, 4, 0), drive.WrongState)
	send(t, s, ref, 6, 1, slice(ref, file, 1))
	noError(t, s.Drop(t.Context(), ref, 6, 0))
	wantParts(t, s, ref, partOf(t, ref, 1, slice(ref, file, 1)))
}

// fenceWaits checks that Fence refuses new writers at once and returns after the running Write,
// with its part.
func fenceWaits(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	g, done := startWrite(t, s, ref, 1, 0, slice(ref, file, 0))
	fenced := make(chan blob.Staged, 1)
	go func() {
		staged, err := s.Fence(t.Context(), ref, 1)
		if err != nil {
			t.Error(err)
		}
		fenced <- staged
	}()
	// The fence stands as soon as another part is refused; the running one goes on.
	for {
		_, err := Send(t.Context(), s, ref, 1, 1, slice(ref, file, 1))
		if _, there := errors.AsType[*blob.PartExistsError](err); err != nil && !there {
			wantKind(t, err, drive.WrongState)
			break
		}
	}
	select {
	case <-fenced:
		t.Error("Fence has not waited")
	default:
	}
	g.open <- nil
	noError(t, <-done)
	if got := <-fenced; len(got.Parts) == 0 || got.Parts[0] != partOf(t, ref, 0, slice(ref, file, 0)) {
		t.Errorf("the part that was waited for is not there: %v", got.Parts)
	}
}

// fenceEnds checks that a Fence whose context ends fails with Unavailable but still refuses
// writers.
func fenceEnds(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	g, done := startWrite(t, s, ref, 1, 0, slice(ref, file, 0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Fence(ctx, ref, 1)
	wantKind(t, err, drive.Unavailable)
	_, err = Send(t.Context(), s, ref, 1, 1, slice(ref, file, 1))
	wantKind(t, err, drive.WrongState)
	g.open <- errConnectionLost
	if <-done == nil {
		t.Error("a torn part is accepted")
	}
	got, err := s.Fence(t.Context(), ref, 1)
	noError(t, err)
	if len(got.Parts) != 0 {
		t.Errorf("parts %v", got.Parts)
	}
}

// removing checks that Remove succeeds while a Write runs, which then fails with NotFound, and may
// be repeated.
func removing(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	send(t, s, ref, 1, 0, slice(ref, file, 0))
	g, done := startWrite(t, s, ref, 1, 1, slice(ref, file, 1))
	noError(t, s.Remove(t.Context(), ref))
	noError(t, s.Remove(t.Context(), ref))
	g.open <- nil
	wantKind(t, <-done, drive.NotFound)
	_, err := s.Load(t.Context(), ref)
	wantKind(t, err, drive.NotFound)
}

// unknownLength checks that an upload and a part of unknown size accept parts of any number and
// size.
func unknownLength(t *testing.T, s blob.Staging) {
	ref := newRef(s, blob.UnknownSize)
	noError(t, s.Create(t.Context(), ref))
	b := Bytes(5, 1234)
	w := blob.Write{N: 1, Gen: 1, Session: Session, Size: blob.UnknownSize}
	body := blob.NewBody(bytes.NewReader(b), blob.BodyOptions{
		N: 1, Offset: ref.PartSize, Size: blob.UnknownSize, Limit: ref.PartSize, Session: Session,
	})
	_, err := s.Write(t.Context(), ref, w, body)
	noError(t, err)
	send(t, s, ref, 1, 700, b)
	wantParts(t, s, ref, partOf(t, ref, 1, b), partOf(t, ref, 700, b))
}

// held checks that Load reports the bytes that the upload occupies, within 64 KiB.
func held(t *testing.T, s blob.Staging) {
	ref, file := newUpload(t, s)
	var sent drive.ByteSize
	for _, n := range []int{1, 2, 0} {
		b := slice(ref, file, n)
		send(t, s, ref, 1, n, b)
		sent += drive.ByteSize(len(b))
		got, err := s.Load(t.Context(), ref)
		noError(t, err)
		if slack := drive.ByteSize(64 << 10); got.Held < sent || got.Held > sent+slack {
			t.Errorf("held %d, sent %d", got.Held, sent)
		}
	}
}
