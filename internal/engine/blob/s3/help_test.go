package s3

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// testPart is the smallest power of two that S3 accepts as part size.
const testPart = 8 * drive.MiB

// testLease is short enough to wait for. Tests must not rely on its lasting, because a busy machine
// may be slower.
const testLease = 2 * time.Second

// leaseBriefly takes the lease of a part and does not renew it, like an instance that froze or
// died.
func leaseBriefly(t *testing.T, s *Staging, ref blob.Ref, n int) *lease {
	t.Helper()
	usual := s.lease
	s.lease = testLease
	l, err := s.claim(t.Context(), ref, blob.Write{N: n, Gen: 1, Size: testPart}, "write")
	s.lease = usual
	noError(t, err)
	return l
}

// leaseEnd returns the expiry of the lease in Redis.
func leaseEnd(t *testing.T, s *Staging, ref blob.Ref, n int) time.Time {
	t.Helper()
	v, err := s.j.redis.HGet(t.Context(), s.j.keys(ref.ID)[1], strconv.Itoa(n)).Result()
	noError(t, err)
	ms, err := strconv.ParseInt(strings.Fields(v)[3], 10, 64)
	noError(t, err)
	return time.UnixMilli(ms)
}

// sharedTransport is used by all tests that do not modify it.
var sharedTransport = newTransport(stallTime, slog.Default())

func newRef(size drive.ByteSize) blob.Ref {
	ref := blobtest.NewRef(size)
	ref.PartSize = testPart
	return ref
}

// newUpload returns a staged upload of two parts, the last one short, and the bytes of its file.
func newUpload(t *testing.T, s *Staging) (blob.Ref, []byte) {
	t.Helper()
	file := blobtest.Bytes(1, testPart+5000)
	ref := newRef(drive.ByteSize(len(file)))
	noError(t, s.Create(t.Context(), ref))
	return ref, file
}

func slicePart(file []byte, n int) []byte {
	return file[n*int(testPart) : min((n+1)*int(testPart), len(file))]
}

func send(t *testing.T, s *Staging, ref blob.Ref, n int, b []byte) blob.Part {
	t.Helper()
	part, err := blobtest.Send(t.Context(), s, ref, 1, n, b)
	noError(t, err)
	return part
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, want drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, want) {
		t.Fatalf("error is %v, want kind %v", err, want)
	}
}

// eventually calls agrees until it returns nil, because the expiry of a lease is not announced.
func eventually(t testing.TB, agrees func() error) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(5 * time.Minute)
	defer late.Stop()
	for {
		err := agrees()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-late.C:
			t.Fatalf("not within five minutes: %v", err)
		}
	}
}

func readAll(t *testing.T, b *Bucket, name string) []byte {
	t.Helper()
	o, err := b.Blobs.Open(t.Context(), name)
	noError(t, err)
	got, err := io.ReadAll(io.NewSectionReader(o, 0, int64(o.Size())))
	noError(t, err)
	noError(t, o.Close())
	return got
}

func wantContent(t *testing.T, b *Bucket, ref blob.Ref, want []byte) {
	t.Helper()
	if got := readAll(t, b, ref.ID.String()); !bytes.Equal(got, want) {
		t.Errorf("content of %d bytes differs from what was sent (%d bytes)", len(got), len(want))
	}
}

// wantNothingStaged checks that neither the store nor Redis has anything of ended uploads.
func wantNothingStaged(t *testing.T, b *Bucket) {
	t.Helper()
	noError(t, b.Staging.ListStaged(t.Context(), func(s blob.Entry) error { return fmt.Errorf("%s is left", s.Path) }))
}

// flushRedis removes all keys of the namespace from Redis, like FLUSHALL.
func flushRedis(t testing.TB, s *Staging) {
	t.Helper()
	keys, err := s.j.redis.Keys(t.Context(), s.j.prefix+":*").Result()
	noError(t, err)
	if len(keys) == 0 {
		t.Fatal("nothing to lose")
	}
	noError(t, s.j.redis.Del(t.Context(), keys...).Err())
}

// loseJournal is flushRedis followed by a Fence, as package upload does because a rebuilt journal
// refuses every gen.
func loseJournal(t *testing.T, s *Staging, ref blob.Ref) {
	t.Helper()
	flushRedis(t, s)
	_, err := blobtest.Send(t.Context(), s, ref, 7, 0, []byte("of whichever gen"))
	wantKind(t, err, drive.WrongState)
	_, err = s.Fence(t.Context(), ref, 0)
	noError(t, err)
}

// blockingReader is a reader that a test can stop in the middle.
type blockingReader struct {
	first   io.Reader
	reached chan struct{}
	open    chan error // nil: the end, else the error
	at      bool
}

func newPause(b []byte) *blockingReader {
	return &blockingReader{first: bytes.NewReader(b), reached: make(chan struct{}), open: make(chan error, 1)}
}

func (p *blockingReader) Read(b []byte) (int, error) {
	n, err := p.first.Read(b)
	if err != io.EOF || n > 0 {
		return n, nil
	}
	if !p.at {
		p.at = true
		close(p.reached)
	}
	if err := <-p.open; err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// startWrite begins a Write of gen 1 and returns when all its bytes but not their end have been
// read.
func startWrite(t *testing.T, s *Staging, ref blob.Ref, n int, b []byte) (*blockingReader, <-chan error) {
	t.Helper()
	return startWriteOf(t, s, ref, blobtest.WriteOf(1, n, b), b)
}

func startWriteOf(t *testing.T, s *Staging, ref blob.Ref, w blob.Write, b []byte) (*blockingReader, <-chan error) {
	t.Helper()
	p, done := newPause(b), make(chan error, 1)
	go func() {
		_, err := s.Write(t.Context(), ref, w, bodyOf(w.N, len(b), p))
		done <- err
	}()
	<-p.reached
	return p, done
}

func bodyOf(n, size int, r io.Reader) blob.Body {
	return blob.NewBody(r, blob.BodyOptions{
		N: n, Offset: drive.ByteSize(n) * testPart, Size: drive.ByteSize(size), Session: blobtest.Session,
	})
}

// onlyReader returns a reader without other methods, like a client's body.
func onlyReader(b []byte) io.Reader { return io.MultiReader(bytes.NewReader(b)) }

func partOf(t *testing.T, n int, b []byte) blob.Part {
	t.Helper()
	body := bodyOf(n, len(b), bytes.NewReader(b))
	_, err := io.Copy(io.Discard, body)
	noError(t, err)
	part, err := body.Finish()
	noError(t, err)
	return part
}
