package zipline

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// sealed is the modification time of test entries: an odd second, with milliseconds.
var sealed = drive.TimeOf(time.Date(2026, 11, 20, 9, 30, 7, 250e6, time.UTC))

// memorySource is a Source in memory that counts, and can be slow or wrong.
type memorySource struct {
	mu      sync.Mutex
	objects map[string]io.ReaderAt
	sizes   map[string]int64

	latency time.Duration // of each request: Open, as a HEAD, and the first ReadAt
	opens   atomic.Int64
	gets    atomic.Int64
	open    atomic.Int64 // open objects
}

func newShelf() *memorySource {
	return &memorySource{objects: map[string]io.ReaderAt{}, sizes: map[string]int64{}}
}

// put stores content under a name and returns its entry.
func (s *memorySource) put(name string, content []byte) Entry {
	return s.putAt(name, bytesAt(content), int64(len(content)), crc32.ChecksumIEEE(content))
}

func (s *memorySource) putAt(name string, content io.ReaderAt, size int64, crc uint32) Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	blobName := fmt.Sprintf("blob-%d", len(s.objects))
	s.objects[blobName], s.sizes[blobName] = content, size
	return Entry{Name: name, Size: drive.ByteSize(size), CRC32: crc, Time: sealed, Blob: blobName}
}

// replace replaces the content of an entry's blob.
func (s *memorySource) replace(e Entry, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[e.Blob], s.sizes[e.Blob] = bytesAt(content), int64(len(content))
}

func (s *memorySource) remove(e Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, e.Blob)
}

func (s *memorySource) wait(ctx context.Context) error {
	if s.latency == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(s.latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *memorySource) Open(ctx context.Context, name string) (blob.Object, error) {
	s.opens.Add(1)
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.objects[name]
	if !ok {
		return nil, drive.Fail(drive.NotFound)
	}
	s.open.Add(1)
	return &object{ReaderAt: content, shelf: s, size: s.sizes[name]}, nil
}

// object costs a request for the first read and for each read that does not continue the last one.
type object struct {
	io.ReaderAt
	shelf *memorySource
	size  int64
	next  int64
	begun bool
	once  sync.Once
}

func (o *object) Size() drive.ByteSize { return drive.ByteSize(o.size) }

func (o *object) ReadAt(p []byte, off int64) (int, error) {
	if !o.begun || off != o.next {
		o.shelf.gets.Add(1)
		_ = o.shelf.wait(context.Background())
	}
	o.begun, o.next = true, off+int64(len(p))
	return o.ReaderAt.ReadAt(p, off)
}

func (o *object) Close() error {
	o.once.Do(func() { o.shelf.open.Add(-1) })
	return nil
}

type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, b[min(off, int64(len(b))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// zeros is a file of zeros of any length.
type zeros int64

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), int64(z)-off))
	clear(p[:n])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// crcOfZeros returns the CRC-32 of size zeros by doubling.
func crcOfZeros(size int64) uint32 {
	crc, at := uint32(0), int64(0)
	step, n := crc32.ChecksumIEEE(make([]byte, 1)), int64(1)
	for ; size > 0; size >>= 1 {
		if size&1 == 1 {
			crc, at = digest.CombineCRC32(crc, step, n), at+n
		}
		step, n = digest.CombineCRC32(step, step, n), 2*n
	}
	return crc
}

func (s *memorySource) putZeros(name string, size int64) Entry {
	return s.putAt(name, zeros(size), size, crcOfZeros(size))
}

// noise returns content without repetition.
func noise(seed, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}).Read(b)
	return b
}

func mustLayout(t testing.TB, entries []Entry) *Archive {
	t.Helper()
	a, err := Layout(entries)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// read returns the bytes [from, to) of an archive.
func read(t testing.TB, a *Archive, src Source, from, to drive.ByteSize, o Options) ([]byte, error) {
	t.Helper()
	r := a.Open(t.Context(), src, from, to, o)
	defer r.Close()
	b := slices.Grow([]byte(nil), int(to-from))
	for {
		n, err := r.Read(b[len(b):min(cap(b), len(b)+256<<10)])
		if b = b[:len(b)+n]; err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, 1)
		}
	}
}

func mustRead(t testing.TB, a *Archive, src Source, from, to drive.ByteSize, o Options) []byte {
	t.Helper()
	b, err := read(t, a, src, from, to, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != int(to-from) {
		t.Fatalf("%d bytes of [%d, %d)", len(b), from, to)
	}
	return b
}

// readCounts lets archive/zip read an archive.
type readCounts struct {
	t   testing.TB
	a   *Archive
	src Source
}

func (s readCounts) ReadAt(p []byte, off int64) (int, error) {
	r := s.a.Open(s.t.Context(), s.src, drive.ByteSize(off), drive.ByteSize(off+int64(len(p))), Options{Window: 2 << 20})
	defer r.Close()
	n, err := io.ReadFull(r, p)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}
