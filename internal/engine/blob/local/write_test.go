package local

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// file is an io.WriterAt in memory.
type file struct {
	b      []byte
	writes int
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.writes++
	return copy(f.b[off:], p), nil
}

// pacedReader returns piece bytes at a time and sleeps in between.
type pacedReader struct {
	r     io.Reader
	piece int
	pause time.Duration
	seen  func()
}

func (r pacedReader) Read(p []byte) (int, error) {
	time.Sleep(r.pause)
	if r.seen != nil {
		r.seen()
	}
	return r.r.Read(p[:min(len(p), r.piece)])
}

func TestSlowStreamUsesSmallBuffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pause time.Duration
		large bool
	}{"fast": {0, true}, "slow": {time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := blobtest.Bytes(1, 4*drive.MiB+17)
				pool, held := newBuffers(8<<20), 0
				seen := func() { held = max(held, pool.inUse) }
				to := &file{b: make([]byte, len(b))}
				c1 := copier{to: to, limit: int64(len(b)), buffers: pool}
				n, err := c1.copy(t.Context(), pacedReader{bytes.NewReader(b), 64 << 10, c.pause, seen})
				if err != nil || n != int64(len(b)) || !bytes.Equal(to.b, b) {
					t.Fatalf("copied %d of %d bytes: %v", n, len(b), err)
				}
				if (held > 0) != c.large {
					t.Errorf("%d quarters of large buffers were held", held)
				}
				if pool.inUse != 0 {
					t.Errorf("%d quarters not given back", pool.inUse)
				}
			})
		})
	}
}

func TestStreamThatSlowsDownReturnsLargeBuffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := newBuffers(8 << 20)
		fast, slow := blobtest.Bytes(1, 2*drive.MiB), blobtest.Bytes(2, 200)
		var afterwards int
		tail := pacedReader{bytes.NewReader(slow), 50, time.Second, func() { afterwards = pool.inUse }}
		to := &file{b: make([]byte, len(fast)+len(slow))}
		c := copier{to: to, limit: int64(len(to.b)), buffers: pool}
		if _, err := c.copy(t.Context(), io.MultiReader(bytes.NewReader(fast), tail)); err != nil {
			t.Fatal(err)
		}
		if afterwards != 0 {
			t.Errorf("a slow stream holds %d quarters", afterwards)
		}
		if !bytes.Equal(to.b, append(fast, slow...)) {
			t.Error("bytes differ")
		}
	})
}

func TestCopyRejectsTooLongStream(t *testing.T) {
	t.Parallel()
	to := &file{b: make([]byte, 1<<20)}
	c := copier{to: to, limit: 100, buffers: newBuffers(1 << 20)}
	if _, err := c.copy(t.Context(), bytes.NewReader(make([]byte, 101))); !drive.IsKind(err, drive.PartSize) {
		t.Errorf("error is %v", err)
	}
	if to.writes > 0 {
		t.Error("bytes of the next part were overwritten")
	}
	if _, err := c.copy(t.Context(), io.MultiReader(bytes.NewReader(nil), emptyReader{})); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that never yields: %v", err)
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

func TestBuffersStayWithinTheirBudget(t *testing.T) {
	t.Parallel()
	b := newBuffers(4 << 20)
	var leases []loan
	sizes := map[int]int{}
	for {
		l := b.borrow(1 << 30)
		if !l.held() {
			break
		}
		for i := range l.buf {
			l.buf[i] = byte(len(leases))
		}
		leases = append(leases, l)
		sizes[len(l.buf)]++
	}
	if sizes[largeBuffer] != 2 || sizes[quarterBuffer] != 8 {
		t.Errorf("4 MiB were lent as %v, want 2 of 1 MiB, then 8 of 256 KiB", sizes)
	}
	for i, l := range leases {
		if l.buf[0] != byte(i) || l.buf[len(l.buf)-1] != byte(i) {
			t.Fatalf("buffer %d was lent twice", i)
		}
		b.giveBack(l)
	}
	if l := b.borrow(1 << 30); len(l.buf) != largeBuffer {
		t.Errorf("after all came back, %d bytes are lent", len(l.buf))
	}
}

// TestConcurrentOperations runs all operations concurrently, for the race detector, and checks that
// the last acknowledged state is stored.
func TestConcurrentOperations(t *testing.T) {
	t.Parallel()
	const parts, rounds = 8, 15
	d := openTestDir(t, func(o *Options) { o.DirtyLimit = drive.MiB; o.BufferMemory = 2 * drive.MiB })
	ref := blobtest.NewRef(parts * blobtest.PartSize)
	noError(t, d.Staging.Create(t.Context(), ref))
	last := make([]blob.Part, parts)
	var all, readers sync.WaitGroup
	stop := make(chan struct{})
	for n := range parts {
		all.Go(func() {
			for i := range rounds {
				b := blobtest.Bytes(uint64(n*rounds+i), blobtest.PartSize)
				p, err := blobtest.Send(t.Context(), d.Staging, ref, 1<<40, n, b)
				if err != nil {
					t.Errorf("part %d: %v", n, err)
				}
				last[n] = p
				if i < rounds-1 {
					if err := d.Staging.Drop(t.Context(), ref, 1<<40, n); err != nil {
						t.Errorf("drop %d: %v", n, err)
					}
				}
			}
		})
	}
	for _, call := range []func(gen int64) error{
		func(gen int64) error { _, err := d.Staging.Fence(t.Context(), ref, gen); return err },
		func(int64) error { _, err := d.Staging.Load(t.Context(), ref); return err },
		func(int64) error { _, err := d.Staging.Verify(t.Context(), ref, 1<<40); return err },
		func(int64) error { return d.Staging.Create(t.Context(), ref) },
	} {
		readers.Go(func() {
			for gen := int64(1); ; gen++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := call(gen); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	readers.Wait()
	for _, d := range []*Dir{d, reopenDir(t, d)} {
		got := load(t, d, ref)
		if len(got.Parts) != parts || got.Held != ref.Size {
			t.Fatalf("%d parts, %d bytes held", len(got.Parts), got.Held)
		}
		for n, p := range got.Parts {
			if p != last[n] {
				t.Errorf("part %d is not the one that was acknowledged last", n)
			}
		}
	}
	noError(t, d.Staging.Seal(t.Context(), ref, ref.Size))
}

// TestConcurrentCreateAndRemove: both use the same dated directories.
func TestConcurrentCreateAndRemove(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 25 {
				ref := blobtest.NewRef(1)
				if err := d.Staging.Create(t.Context(), ref); err != nil {
					t.Error(err)
				}
				if _, err := d.Staging.Load(t.Context(), ref); err != nil {
					t.Error(err)
				}
				if err := d.Staging.Remove(t.Context(), ref); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := d.Staging.ListStaged(t.Context(), func(s blob.Entry) error { return errors.New(s.Path) }); err != nil {
		t.Errorf("left behind: %v", err)
	}
	if n := len(d.Staging.uploads); n != 0 {
		t.Errorf("%d uploads kept in memory", n)
	}
}

func TestInactiveUploadIsEvicted(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	kept := func() int { return len(d.Staging.uploads) }
	ref, _ := newUpload(t, d)
	load(t, d, ref)
	if kept() != 0 {
		t.Error("kept after Load")
	}
	send(t, d, ref, 1, 2, blobtest.Bytes(1, 5000))
	if kept() != 1 {
		t.Error("not kept while parts come")
	}
	_, err := d.Staging.Fence(t.Context(), ref, 1)
	noError(t, err)
	if kept() != 0 {
		t.Error("kept after Fence")
	}
}

// TestCopyOfExactlyOneBuffer checks that content after a full buffer is neither lost nor overwrites
// it.
func TestCopyOfExactlyOneBuffer(t *testing.T) {
	t.Parallel()
	for _, size := range []drive.ByteSize{smallBuffer - 1, smallBuffer, smallBuffer + 1, 2 * smallBuffer} {
		b := blobtest.Bytes(1, size)
		pool := newBuffers(0) // what is large is not to be had
		to := &file{b: make([]byte, size)}
		c := copier{to: to, limit: int64(size), buffers: pool, small: pool.getSmall()}
		n, err := c.copy(t.Context(), untidyReader{bytes.NewReader(b)})
		if err != nil || n != int64(size) || !bytes.Equal(to.b, b) {
			t.Errorf("copied %d of %d bytes: %v", n, size, err)
		}
		if c.fitsSmall != (size <= smallBuffer) || c.fitsSmall && !bytes.Equal(c.small[:n], b) {
			t.Errorf("%d bytes: at once: %t", size, c.fitsSmall)
		}
	}
}

// untidyReader writes to all of the buffer that it is given, as a reader may.
type untidyReader struct{ r io.Reader }

func (r untidyReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	clear(p[n:])
	return n, err
}
