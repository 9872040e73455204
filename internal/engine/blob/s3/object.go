package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Windows of a GET, in bytes. Sequential reads quadruple the window, so that a long download needs
// few requests and a small random read does not transfer megabytes. Windows are not buffered:
// unread bytes stay in the connection.
const (
	firstWindow = 256 << 10
	lastWindow  = 32 << 20
)

// maxFruitlessReads bounds consecutive reads without progress. readRetryPause is the pause after
// the first; it doubles each time.
const (
	maxFruitlessReads = 4
	readRetryPause    = 100 * time.Millisecond
)

// readStall is the time after which a ReadAt without the wanted bytes treats the connection as
// broken.
const readStall = time.Minute

// open returns the object at key in its current version. If it is replaced later, reads fail (B1).
func (b *Bucket) open(ctx context.Context, key string) (blob.Object, error) {
	info, err := b.stat(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("open content: %w", err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &object{
		b: b, key: key, etag: info.ETag, size: info.Size, lifetime: func() context.Context { return life }, cancel: cancel,
	}, nil
}

// object implements blob.Object with ranged GETs. One open stream is kept for sequential reads;
// concurrent readers use their own requests.
type object struct {
	b        *Bucket
	key      string
	etag     string
	size     int64
	lifetime func() context.Context // returns a context that ends with Close, not with the call of open
	cancel   context.CancelFunc

	mu     sync.Mutex // held by the reader that uses stream
	stream stream
}

// stream is an open GET. The zero value has none.
type stream struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	off    int64 // offset of the next byte
	end    int64 // offset of the window's end
	window int64 // size of the window
}

// Size returns the size of the object.
func (o *object) Size() drive.ByteSize { return drive.ByteSize(o.size) }

// Close cancels running reads and closes the stream. It always returns nil.
func (o *object) Close() error {
	o.cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stream.close()
	return nil
}

// ReadAt reads from the stream that is kept open for sequential reads, or through a request of its
// own while another call uses the stream. It fills p, or returns io.EOF at the end of the content.
// It is safe for concurrent use.
func (o *object) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("read content: negative offset")
	}
	short := off+int64(len(p)) > o.size
	if short {
		p = p[:max(0, o.size-off)]
	}
	if len(p) > 0 {
		if o.mu.TryLock() {
			n, err = o.read(&o.stream, p, off)
			o.mu.Unlock()
		} else {
			var own stream
			n, err = o.read(&own, p, off)
			own.close()
		}
	}
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// read fills p through s. It replaces a broken connection and continues at the same offset, until
// maxFruitlessReads attempts in a row have returned nothing or the object is closed. The caller
// makes sure that p ends within the content.
func (o *object) read(s *stream, p []byte, off int64) (n int, err error) {
	pause := readRetryPause
	for fruitless := 0; n < len(p); {
		m, err := o.readOnce(s, p[n:], off+int64(n))
		if n += m; err == nil {
			continue
		}
		s.close()
		if m > 0 {
			fruitless, pause = 0, readRetryPause
		}
		if fruitless++; fruitless > maxFruitlessReads || !drive.IsKind(err, drive.Unavailable) {
			return n, fmt.Errorf("read content: %w", err)
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-o.lifetime().Done():
			return n, fmt.Errorf("read content: %w", context.Canceled)
		}
	}
	return n, nil
}

// readOnce reads from s, which it reopens if off is not the next byte or the window has ended. It
// may read less than p.
func (o *object) readOnce(s *stream, p []byte, off int64) (int, error) {
	if s.body == nil || s.off != off || s.off == s.end {
		if err := o.openWindow(s, int64(len(p)), off); err != nil {
			return 0, err
		}
	}
	stall := time.AfterFunc(readStall, s.cancel)
	defer stall.Stop()
	m, err := io.ReadFull(s.body, p[:min(int64(len(p)), s.end-s.off)])
	s.off += int64(m)
	if err != nil {
		return m, classify(err)
	}
	return m, nil
}

// openWindow replaces s by a stream of at least want bytes from off, but not beyond the end of the
// object. A sequential read gets a larger window than the last one. It closes the previous stream,
// also if it fails. It fails if the object was replaced (ETag).
func (o *object) openWindow(s *stream, want, off int64) error {
	window := int64(firstWindow)
	if s.body != nil && s.off == off { // read on
		window = min(4*s.window, lastWindow)
	}
	s.close()
	window = min(max(window, want), o.size-off)
	opts := minio.GetObjectOptions{}
	if err := errors.Join(opts.SetRange(off, off+window-1), opts.SetMatchETag(o.etag)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(o.lifetime())
	body, _, _, err := o.b.api.GetObject(ctx, o.b.name, o.key, opts)
	if err != nil {
		cancel()
		return classify(err)
	}
	*s = stream{body: body, cancel: cancel, off: off, end: off + window, window: window}
	return nil
}

// close closes the stream, if it is open.
func (s *stream) close() {
	if s.body != nil {
		if s.off == s.end { // reading to EOF lets the connection be reused
			_, _ = io.CopyN(io.Discard, s.body, 1)
		}
		_ = s.body.Close()
		s.cancel()
		s.body = nil
	}
}
