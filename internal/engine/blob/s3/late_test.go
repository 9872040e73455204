package s3

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
)

// lookupHook calls a function between the look for content and the one for multipart uploads.
type lookupHook struct {
	next   http.RoundTripper
	looked chan struct{} // closed after the first HEAD
	once   sync.Once
	do     sync.Once
	what   func()
}

func (b *lookupHook) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Has("uploads") && r.Method == http.MethodGet {
		<-b.looked
		b.do.Do(b.what)
	}
	resp, err := b.next.RoundTrip(r)
	if r.Method == http.MethodHead {
		b.once.Do(func() { close(b.looked) })
	}
	return resp, err
}

// TestJournalLossDuringComplete: a survey that sees neither content nor parts would report the
// upload as lost, and the completed content would be deleted.
func TestJournalLossDuringComplete(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	other := bucketAt(t, o)
	ref, file := newUpload(t, other.Staging)
	for n := range 2 {
		send(t, other.Staging, ref, n, slicePart(file, n))
	}
	j, err := other.Staging.load(t.Context(), ref)
	noError(t, err)
	o.Transport = &lookupHook{next: sharedTransport, looked: make(chan struct{}), what: func() {
		_, err := other.api.CompleteMultipartUpload(t.Context(), other.name, other.contentKey(ref.ID), j.mpu, j.completeParts(), minio.PutObjectOptions{})
		if err != nil {
			t.Errorf("complete: %v", err)
		}
	}}
	b := bucketAt(t, o)
	flushRedis(t, other.Staging)
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, file)
	wantHeld(t, b.Staging, ref, true, true)
}

// TestLeaseAfterClockSetBack lets Redis fail over to a server whose clock is a day behind: leases
// of dead instances must not last that day, and live ones must be renewed.
func TestLeaseAfterClockSetBack(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	s := b.Staging
	ref, file := newUpload(t, s)
	key, now := s.j.keys(ref.ID)[1], time.Now()
	later := func(n, owner, token string) {
		t.Helper()
		v := fmt.Sprintf("%s %s 1 %d", owner, token, now.Add(24*time.Hour).UnixMilli())
		noError(t, s.j.redis.HSet(t.Context(), key, n, v).Err())
	}
	later("0", "dead", "gone")
	got, err := s.Load(t.Context(), ref)
	noError(t, err)
	if got.Writing != 0 {
		t.Errorf("%d parts are being written", got.Writing)
	}
	send(t, s, ref, 0, slicePart(file, 0))
	p, done := startWrite(t, s, ref, 1, slicePart(file, 1))
	v, err := s.j.redis.HGet(t.Context(), key, "1").Result()
	noError(t, err)
	later("1", s.owner, strings.Fields(v)[1])
	p.open <- nil
	noError(t, <-done)
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantContent(t, b, ref, file)
}

// TestDropAfterLateComplete: a frozen instance completes the multipart upload after the upload was
// reopened; a Drop then finds no multipart upload, but the upload is not lost.
func TestDropAfterLateComplete(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	s := b.Staging
	ref, file := newUpload(t, s)
	for n := range 2 {
		send(t, s, ref, n, slicePart(file, n))
	}
	j, err := s.load(t.Context(), ref)
	noError(t, err)
	noError(t, s.complete(t.Context(), ref, j, ref.Size))
	wantKind(t, s.Drop(t.Context(), ref, 1, 1), drive.Unavailable)
	wantKind(t, s.Drop(t.Context(), ref, 1, 1), drive.WrongState) // it is sealed
	noError(t, s.Unseal(t.Context(), ref))
	_, err = s.Fence(t.Context(), ref, 1)
	noError(t, err)
	noError(t, s.Drop(t.Context(), ref, 2, 1))
	wantHeld(t, s, ref, true)
}
