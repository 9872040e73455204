package s3

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// extend appends b to the tail of part 0, like a process without cached hashes.
func extend(t *testing.T, s *Staging, ref blob.Ref, gen int64, had, b []byte) error {
	t.Helper()
	hashes := blob.NewTail(0)
	_, err := hashes.Write(had)
	noError(t, err)
	e := blob.Extend{Gen: gen, Session: blobtest.Session, At: drive.ByteSize(len(had)), Whole: testPart}
	_, err = s.Extend(t.Context(), ref, e, blob.NewBody(bytes.NewReader(b), blob.BodyOptions{
		Size: blob.UnknownSize, Limit: testPart - e.At, Session: blobtest.Session, Tail: hashes,
	}))
	return err
}

// wantTail checks the length and bytes of the tail of part 0.
func wantTail(t *testing.T, s *Staging, ref blob.Ref, want []byte, unread bool) {
	t.Helper()
	staged, err := s.Load(t.Context(), ref)
	noError(t, err)
	if len(staged.Tails) != 1 || int(staged.Tails[0].Size) != len(want) || staged.Tails[0].Unread != unread {
		t.Fatalf("tails are %+v, want one of %d bytes", staged.Tails, len(want))
	}
	if staged.Held < drive.ByteSize(len(want)) {
		t.Errorf("held %d bytes of %d", staged.Held, len(want))
	}
	r, err := s.OpenTail(t.Context(), ref, 0)
	noError(t, err)
	got, err := io.ReadAll(r)
	noError(t, errors.Join(err, r.Close()))
	if !bytes.Equal(got, want) {
		t.Error("the tail has other bytes")
	}
}

func countPieces(t *testing.T, b *Bucket, ref blob.Ref) (n int) {
	t.Helper()
	noError(t, b.eachPiece(t.Context(), b.piecesPrefix(ref.ID), func(minio.ObjectInfo) error {
		n++
		return nil
	}))
	return n
}

// TestManyExtendsLeaveFewPieces checks that small pieces are merged.
func TestManyExtendsLeaveFewPieces(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref, file := newUpload(t, b.Staging)
	const step, steps = 1000, 100
	for at := 0; at < step*steps; at += step {
		noError(t, extend(t, b.Staging, ref, 1, file[:at], file[at:at+step]))
		if n := countPieces(t, b, ref); n > 8 {
			t.Fatalf("%d objects hold %d bytes", n, at+step)
		}
	}
	wantTail(t, b.Staging, ref, file[:step*steps], false)
	noError(t, extend(t, b.Staging, ref, 1, file[:step*steps], file[step*steps:testPart]))
	if n := countPieces(t, b, ref); n > 0 {
		t.Errorf("%d objects are left of a tail that is a part", n)
	}
	wantHeld(t, b.Staging, ref, false)
}

// TestSmallPieceIsRetried checks that a small piece is sent again after a transient error.
func TestSmallPieceIsRetried(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	var refused atomic.Int32
	o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/tails/") && refused.Add(1)%2 == 1 {
			_, _ = io.Copy(io.Discard, r.Body)
			return answerXML(r, http.StatusServiceUnavailable, "SlowDown"), nil
		}
		return sharedTransport.RoundTrip(r)
	})
	b := bucketAt(t, o)
	ref, file := newUpload(t, b.Staging)
	for at := 0; at < 3000; at += 1000 {
		noError(t, extend(t, b.Staging, ref, 1, file[:at], file[at:at+1000]))
	}
	wantTail(t, b.Staging, ref, file[:3000], false)
	if n := refused.Load(); n != 6 {
		t.Errorf("3 pieces were sent %d times", n)
	}
}

// TestTailSurvivesJournalLoss: an acknowledged offset survives the loss of all of Redis (P2).
func TestTailSurvivesJournalLoss(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	s := b.Staging
	ref, file := newUpload(t, s)
	noError(t, extend(t, s, ref, 1, nil, file[:500_000]))
	noError(t, extend(t, s, ref, 1, file[:500_000], file[500_000:600_000]))
	noError(t, extend(t, s, ref, 1, file[:600_000], file[600_000:610_000]))
	flushRedis(t, s)
	wantTail(t, s, ref, file[:610_000], true)
	wantKind(t, extend(t, s, ref, 1, file[:610_000], file[610_000:testPart]), drive.WrongState) // no gen is known
	_, err := s.Fence(t.Context(), ref, 1)
	noError(t, err)
	noError(t, extend(t, s, ref, 2, file[:610_000], file[610_000:700_000]))
	flushRedis(t, s)
	_, err = s.Fence(t.Context(), ref, 2)
	noError(t, err)
	noError(t, extend(t, s, ref, 3, file[:700_000], file[700_000:testPart]))
	_, err = blobtest.Send(t.Context(), s, ref, 3, 1, slicePart(file, 1))
	noError(t, err)
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, file)
	noError(t, s.Remove(t.Context(), ref))
	wantNothingStaged(t, b)
}

// TestLongestTailIgnoresUnconnectedPieces checks pieces that a dead instance has left.
func TestLongestTailIgnoresUnconnectedPieces(t *testing.T) {
	t.Parallel()
	piece := func(place string, at, size int64, time drive.Time) listedPiece {
		return listedPiece{storedPiece{place, size}, 0, at, time}
	}
	for name, c := range map[string]struct {
		all  []listedPiece
		size drive.ByteSize
		row  []string
	}{
		"one":               {[]listedPiece{piece("a", 0, 10, 1)}, 10, []string{"a"}},
		"a gap":             {[]listedPiece{piece("a", 0, 10, 1), piece("b", 11, 5, 2)}, 10, []string{"a"}},
		"no beginning":      {[]listedPiece{piece("b", 11, 5, 2)}, 0, nil},
		"merged and left":   {[]listedPiece{piece("a", 0, 10, 1), piece("b", 10, 5, 2), piece("ab", 0, 15, 3)}, 15, []string{"ab"}},
		"an attempt before": {[]listedPiece{piece("x", 0, 12, 1), piece("a", 0, 10, 2), piece("b", 10, 9, 3)}, 19, []string{"a", "b"}},
	} {
		got, ok := longestTail(0, c.all)
		if ok != (c.size > 0) || got.Size != c.size || len(got.pieces) != len(c.row) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i, p := range got.pieces {
			if p.Place != c.row[i] {
				t.Errorf("%s: piece %d is %s", name, i, p.Place)
			}
		}
	}
}

// TestPiecesWithoutAJournalAreListed also checks that Remove deletes them.
func TestPiecesWithoutAJournalAreListed(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref, file := newUpload(t, b.Staging)
	noError(t, extend(t, b.Staging, ref, 1, nil, file[:1000]))
	noError(t, b.abortAll(t.Context(), ref.ID))
	flushRedis(t, b.Staging)
	listed := 0
	noError(t, b.Staging.ListStaged(t.Context(), func(stray blob.Entry) error {
		listed++
		if stray.Name != ref.ID.String() || stray.Size != 1000 {
			t.Errorf("listed %+v", stray)
		}
		return nil
	}))
	if listed != 1 {
		t.Errorf("%d are listed", listed)
	}
	noError(t, b.Staging.Remove(t.Context(), ref))
	if n := countPieces(t, b, ref); n > 0 {
		t.Errorf("%d objects stay", n)
	}
}

// FuzzTail checks that every input is rejected or decodes to a valid tail.
func FuzzTail(f *testing.F) {
	f.Add(tail{Part: blob.Part{N: 3, Size: 10, Unread: true}, pieces: []storedPiece{{"3-0-x", 10}}}.encode())
	f.Add("")
	f.Add("{}")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := decodeTail(s)
		if err != nil || s == "" {
			return
		}
		again, err := decodeTail(got.encode())
		if err != nil || again.Part != got.Part || len(again.pieces) != len(got.pieces) {
			t.Errorf("%q becomes %+v, %v", s, again, err)
		}
	})
}
