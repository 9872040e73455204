package s3

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// wantHeld checks which parts an upload has, and which are Unread.
func wantHeld(t *testing.T, s *Staging, ref blob.Ref, unread ...bool) blob.Staged {
	t.Helper()
	got, err := s.Load(t.Context(), ref)
	noError(t, err)
	if len(got.Parts) != len(unread) {
		t.Fatalf("%d parts, want %d", len(got.Parts), len(unread))
	}
	for i, p := range got.Parts {
		if p.Unread != unread[i] || p.CV.IsZero() != unread[i] {
			t.Errorf("part %d: unread %v, chaining value %v", p.N, p.Unread, p.CV)
		}
	}
	return got
}

// TestLostJournalIsRebuilt loses Redis at any moment: acknowledged parts must survive (P2).
func TestLostJournalIsRebuilt(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	s := b.Staging
	ref, file := newUpload(t, s)
	loseJournal(t, s, ref)
	send(t, s, ref, 0, slicePart(file, 0)) // before the first part
	loseJournal(t, s, ref)
	got := wantHeld(t, s, ref, true) // between parts
	if got.Held != testPart || got.Last == 0 {
		t.Errorf("held %d, last %v", got.Held, got.Last)
	}
	send(t, s, ref, 1, slicePart(file, 1))
	wantHeld(t, s, ref, true, false)
	flushRedis(t, s)
	if staged, err := s.Fence(t.Context(), ref, 1); err != nil || len(staged.Parts) != 2 {
		t.Errorf("fenced: %+v, %v", staged, err)
	}
	flushRedis(t, s)
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, file)
	flushRedis(t, s)
	noError(t, s.Seal(t.Context(), ref, ref.Size)) // sealed already
	wantHeld(t, s, ref, true, true)
	flushRedis(t, s)
	noError(t, s.Remove(t.Context(), ref))
	_, err := s.Load(t.Context(), ref)
	wantKind(t, err, drive.NotFound)
	wantContent(t, b, ref, file)
	wantNothingStaged(t, b)
}

// TestUnreadPartsAreReadAfterSeal checks that the digests of Unread parts are computed by reading
// the content.
func TestUnreadPartsAreReadAfterSeal(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref, file := newUpload(t, b.Staging)
	want := []blob.Part{send(t, b.Staging, ref, 0, slicePart(file, 0)), send(t, b.Staging, ref, 1, slicePart(file, 1))}
	flushRedis(t, b.Staging)
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	o, err := b.Staging.OpenStaged(t.Context(), ref)
	noError(t, err)
	for _, p := range want {
		cv, crc, err := digest.HashPart(t.Context(), o, int64(p.N)*int64(testPart), int64(p.Size), nil)
		if err != nil || cv != p.CV || crc != p.CRC32 {
			t.Errorf("part %d read again: %v, %x, %v", p.N, cv, crc, err)
		}
	}
	noError(t, o.Close())
}

func TestJournalLossDuringWrite(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref, file := newUpload(t, b.Staging)
	send(t, b.Staging, ref, 1, slicePart(file, 1))
	p, done := startWrite(t, b.Staging, ref, 0, slicePart(file, 0))
	flushRedis(t, b.Staging)
	p.open <- nil
	wantKind(t, <-done, drive.WrongState) // nobody knows whether its gen may still write
	wantHeld(t, b.Staging, ref, true, true)
}

// TestJournalLossAfterRemove checks that a lost journal does not bring a removed upload back.
func TestJournalLossAfterRemove(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref, file := newUpload(t, b.Staging)
	p, done := startWrite(t, b.Staging, ref, 0, slicePart(file, 0))
	noError(t, b.Staging.Remove(t.Context(), ref))
	flushRedis(t, b.Staging)
	p.open <- nil
	wantKind(t, <-done, drive.NotFound)
	_, err := blobtest.Send(t.Context(), b.Staging, ref, 1, 1, slicePart(file, 1))
	wantKind(t, err, drive.NotFound)
	wantNothingStaged(t, b)
}

// TestJournalLossAfterUnseal checks that content left in place does not make the upload sealed.
func TestJournalLossAfterUnseal(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref, file := newUpload(t, b.Staging)
	for n := range 2 {
		send(t, b.Staging, ref, n, slicePart(file, n))
	}
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	noError(t, b.Staging.Unseal(t.Context(), ref))
	loseJournal(t, b.Staging, ref)
	wantHeld(t, b.Staging, ref, true, true)
	noError(t, b.Staging.Drop(t.Context(), ref, 1, 1))
	loseJournal(t, b.Staging, ref)
	wantHeld(t, b.Staging, ref, true) // a part that was dropped stays dropped
	other := blobtest.Bytes(3, 5000)
	send(t, b.Staging, ref, 1, other)
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, append(file[:testPart:testPart], other...))
}

// rewindJournal restores an earlier state of the journal, like a Redis that restarts without the
// end of its log.
func rewindJournal(t *testing.T, s *Staging, ref blob.Ref, between func()) {
	t.Helper()
	redis, key := s.j.redis, s.j.keys(ref.ID)[0]
	dump, err := redis.Dump(t.Context(), key).Result()
	noError(t, err)
	between()
	noError(t, redis.RestoreReplace(t.Context(), key, 0, dump).Err())
	noError(t, redis.Del(t.Context(), s.j.keys(ref.ID)[1]).Err())
	noError(t, redis.HSet(t.Context(), key, "r", "0123456789abcdef").Err()) // what ran then, not what runs now
}

func TestRedisLosesLastWrites(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	s := b.Staging
	ref, file := newUpload(t, s)
	send(t, s, ref, 0, slicePart(file, 0))
	rewindJournal(t, s, ref, func() { send(t, s, ref, 1, slicePart(file, 1)) })
	wantHeld(t, s, ref, false, true) // what was not lost is not doubted
	rewindJournal(t, s, ref, func() {
		noError(t, s.Drop(t.Context(), ref, 1, 0))
		send(t, s, ref, 0, blobtest.Bytes(5, testPart))
		file = append(blobtest.Bytes(5, testPart), slicePart(file, 1)...)
	})
	wantHeld(t, s, ref, true, true)
	rewindJournal(t, s, ref, func() { noError(t, s.Seal(t.Context(), ref, ref.Size)) })
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	rewindJournal(t, s, ref, func() { noError(t, s.Unseal(t.Context(), ref)) })
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, file)
}

// forgettingStore is a store that, like most, does not know a multipart upload after it was
// completed.
type forgettingStore struct {
	next http.RoundTripper

	mu   sync.Mutex
	over map[string]bool
}

func (f *forgettingStore) RoundTrip(r *http.Request) (*http.Response, error) {
	mpu := r.URL.Query().Get("uploadId")
	f.mu.Lock()
	over := mpu != "" && f.over[mpu]
	f.mu.Unlock()
	if over {
		_, _ = io.Copy(io.Discard, r.Body)
		return answerXML(r, http.StatusNotFound, "NoSuchUpload"), nil
	}
	resp, err := f.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && mpu != "" && resp.StatusCode == http.StatusOK {
		f.mu.Lock()
		f.over[mpu] = true
		f.mu.Unlock()
		_ = resp.Body.Close()
		return nil, errDead // and the reply is lost
	}
	return resp, err
}

func answerXML(r *http.Request, status int, code string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/xml"}},
		Body:   io.NopCloser(bytes.NewReader([]byte("<Error><Code>" + code + "</Code></Error>"))),
	}
}

func TestStoreLosesCompletedUpload(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Transport = &forgettingStore{next: sharedTransport, over: map[string]bool{}}
	b := bucketAt(t, o)
	ref, file := newUpload(t, b.Staging)
	for n := range 2 {
		send(t, b.Staging, ref, n, slicePart(file, n))
	}
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, file)
	// Unsealed and changed, and again the reply is lost: what was left in its place is not taken
	// for the new content.
	noError(t, b.Staging.Unseal(t.Context(), ref))
	noError(t, b.Staging.Drop(t.Context(), ref, 1, 1))
	other := blobtest.Bytes(3, 5000)
	send(t, b.Staging, ref, 1, other)
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, append(file[:testPart:testPart], other...))
}

// TestForeignAbortIsReported: a lifecycle rule of the bucket or a person aborts the multipart
// upload.
func TestForeignAbortIsReported(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref, file := newUpload(t, b.Staging)
	send(t, b.Staging, ref, 0, slicePart(file, 0))
	send(t, b.Staging, ref, 1, slicePart(file, 1))
	noError(t, b.abortAll(t.Context(), ref.ID))
	wantKind(t, b.Staging.Seal(t.Context(), ref, ref.Size), drive.NotFound)

	ref, file = newUpload(t, b.Staging)
	noError(t, b.abortAll(t.Context(), ref.ID))
	_, err := blobtest.Send(t.Context(), b.Staging, ref, 1, 0, slicePart(file, 0))
	wantKind(t, err, drive.NotFound)
}
