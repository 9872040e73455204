package zipline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

func TestRangesAreSlicesOfTheWhole(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	a := mustLayout(t, entries)
	all := mustRead(t, a, s, 0, a.Size(), Options{})
	if len(all) != int(a.Size()) {
		t.Fatalf("%d bytes, said were %d", len(all), a.Size())
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		from := rnd.Int64N(int64(a.Size()) + 1)
		to := from + rnd.Int64N(int64(a.Size())+1-from)
		if rnd.IntN(2) == 0 { // half of them short, around the boundaries
			to = min(to, from+rnd.Int64N(2000))
		}
		o := Options{Parallel: 1 + rnd.IntN(5), VerifyLimit: drive.ByteSize(rnd.IntN(3)-1) * 1 << 20}
		if got := mustRead(t, a, s, drive.ByteSize(from), drive.ByteSize(to), o); !bytes.Equal(got, all[from:to]) {
			t.Fatalf("[%d, %d) is not that slice", from, to)
		}
	}
	if n := s.open.Load(); n != 0 {
		t.Errorf("%d objects are open", n)
	}
}

// A reader that delivers an entry to its end delivers the sealed bytes. Otherwise it fails early,
// with the reason.
func TestDamagedEntryIsNotDelivered(t *testing.T) {
	t.Parallel()
	small, large := noise(1, 100_000), noise(2, 5<<20+100)
	for what, harm := range map[string]struct {
		do   func(s *memorySource, small, large Entry)
		kind drive.Kind
	}{
		"bit flipped": {func(s *memorySource, a, b Entry) { s.replace(a, flipped(small, 5)); s.replace(b, flipped(large, 5)) }, drive.DigestMismatch},
		"last bit": {func(s *memorySource, a, b Entry) {
			s.replace(a, flipped(small, 99_999))
			s.replace(b, flipped(large, len(large)-1))
		}, drive.DigestMismatch},
		"shorter": {func(s *memorySource, a, b Entry) { s.replace(a, small[1:]); s.replace(b, large[1:]) }, drive.DigestMismatch},
		"longer":  {func(s *memorySource, a, b Entry) { s.replace(a, append(small, 0)); s.replace(b, append(large, 0)) }, drive.DigestMismatch},
		"empty":   {func(s *memorySource, a, b Entry) { s.replace(a, nil); s.replace(b, nil) }, drive.DigestMismatch},
		"cut in use": {func(s *memorySource, a, b Entry) {
			s.objects[a.Blob], s.objects[b.Blob] = bytesAt(small[:9]), bytesAt(large[:9])
		}, drive.DigestMismatch},
		"gone": {func(s *memorySource, a, b Entry) { s.remove(a); s.remove(b) }, drive.NotFound},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newShelf()
			entries := []Entry{s.put("good", noise(9, 100)), s.put("small", small), s.put("large", large), s.put("last", nil)}
			a := mustLayout(t, entries)
			all := mustRead(t, a, s, 0, a.Size(), Options{})
			harm.do(s, entries[1], entries[2])
			size := a.Size()
			begins := func(i int) drive.ByteSize { from, _ := a.contentRange(i); return drive.ByteSize(from) }
			ends := func(i int) drive.ByteSize { _, to := a.contentRange(i); return drive.ByteSize(to) }
			for _, c := range []struct {
				from, to, sees drive.ByteSize // sees: no byte from here on may be delivered
				entry          int
			}{
				{0, size, begins(1), 1},                                // nothing of a small entry
				{begins(1) + 500, begins(1) + 600, begins(1) + 500, 1}, // not even from its middle
				{begins(2), size, ends(2) - 1, 2},                      // not the end of a large one
				{begins(2) + 2<<20, size, ends(2) - 1, 2},              // also if another request had its beginning
				{ends(2) - 1, ends(2), ends(2) - 1, 2},                 // or all but its last byte
			} {
				var broken []*EntryError
				got, err := read(t, a, s, c.from, c.to, Options{OnBroken: func(e *EntryError) { broken = append(broken, e) }})
				e, ok := errors.AsType[*EntryError](err)
				if !ok || e.Index != c.entry || e.Name != entries[c.entry].Name || !e.Damaged() || drive.KindOf(e.Err) != harm.kind {
					t.Errorf("[%d, %d): %v", c.from, c.to, err)
				}
				if len(broken) != 1 || broken[0] != e {
					t.Errorf("[%d, %d): told of %v", c.from, c.to, broken)
				}
				if c.from+drive.ByteSize(len(got)) > c.sees {
					t.Errorf("[%d, %d): %d bytes came, up to %d", c.from, c.to, len(got), c.from+drive.ByteSize(len(got)))
				}
			}
			s.replace(entries[1], small)
			s.replace(entries[2], large)
			s.sizes[entries[1].Blob], s.sizes[entries[2].Blob] = int64(len(small)), int64(len(large))
			if !bytes.Equal(mustRead(t, a, s, 0, size, Options{}), all) {
				t.Error("the harm is gone, and it is still another archive")
			}
		})
	}
}

func flipped(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 1
	return b
}

// Above the limit only the length is checked: a range of one byte must not read gigabytes.
func TestRecheckIsLimited(t *testing.T) {
	t.Parallel()
	s := newShelf()
	content := noise(1, 4<<20)
	e := s.put("a", content)
	a := mustLayout(t, []Entry{e})
	s.replace(e, flipped(content, 0))
	_, end := a.contentRange(0)
	for _, c := range []struct {
		recheck drive.ByteSize
		fails   bool
	}{{0, true}, {-1, true}, {4<<20 - 1, true}, {4<<20 - 2, false}} {
		_, err := read(t, a, s, drive.ByteSize(end-1), drive.ByteSize(end), Options{VerifyLimit: c.recheck})
		if (err != nil) != c.fails {
			t.Errorf("recheck %v: %v", c.recheck, err)
		}
	}
}

func TestStoreErrorIsNotDamage(t *testing.T) {
	t.Parallel()
	s := newShelf()
	e := s.put("a", noise(1, 100))
	a := mustLayout(t, []Entry{e})
	s.objects[e.Blob] = failing{}
	_, err := read(t, a, s, 0, a.Size(), Options{})
	if e, ok := errors.AsType[*EntryError](err); !ok || e.Damaged() || !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, drive.Fail(drive.Unavailable) }

// The end of the context ends a waiting reader, reports no broken entry, and leaves nothing open.
func TestEndOfContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		var entries []Entry
		for i := range 200 {
			entries = append(entries, s.put(fmt.Sprint(i), noise(i, 200_000)))
		}
		a := mustLayout(t, entries)
		s.latency = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		r := a.Open(ctx, s, 0, a.Size(), Options{OnBroken: func(e *EntryError) { t.Errorf("told of %v", e) }})
		if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		r.Close()
		synctest.Wait()
		if n := s.open.Load(); n != 0 {
			t.Errorf("%d objects are open", n)
		}
		if _, err := r.Read(make([]byte, 1)); err == nil {
			t.Error("a closed reader reads")
		}
	})
}

// A reader that is closed early leaves nothing behind.
func TestCloseEarly(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	a := mustLayout(t, entries)
	for n := range 30 {
		r := a.Open(t.Context(), s, 0, a.Size(), Options{Window: 2 << 20, Parallel: 1 + n%4})
		_, _ = io.CopyN(io.Discard, r, int64(n)*150_000)
		r.Close()
		if n := s.open.Load(); n != 0 {
			t.Fatalf("%d objects are open", n)
		}
	}
}

// With 20 ms per request, two requests per object of 100 KB: at least 100 MB/s, one GET per object
// (A5). The bubble's clock measures waiting only.
func TestLatencyIsHidden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, size = 2_000, 100_000
		s := newShelf()
		s.latency = 20 * time.Millisecond
		entries := make([]Entry, n)
		for i := range entries {
			entries[i] = s.putZeros(fmt.Sprint(i), size)
		}
		a := mustLayout(t, entries)
		began := time.Now()
		r := a.Open(t.Context(), s, 0, a.Size(), Options{})
		defer r.Close()
		if m, err := io.Copy(io.Discard, r); err != nil || m != int64(a.Size()) {
			t.Fatalf("%d bytes: %v", m, err)
		}
		took := time.Since(began)
		if rate := float64(a.Size()) / took.Seconds() / 1e6; rate < 100 {
			t.Errorf("%.0f MB/s", rate)
		}
		if gets := s.gets.Load(); gets != n {
			t.Errorf("%d GETs for %d objects", gets, n)
		}
	})
}

// A large entry is one GET, for any speed of the client.
func TestLargeEntryIsReadOnce(t *testing.T) {
	t.Parallel()
	s := newShelf()
	a := mustLayout(t, []Entry{s.putZeros("large", 200<<20), s.putZeros("next", 100)})
	r := a.Open(t.Context(), s, 0, a.Size(), Options{})
	defer r.Close()
	if n, err := io.Copy(io.Discard, r); err != nil || n != int64(a.Size()) {
		t.Fatalf("%d bytes: %v", n, err)
	}
	if gets := s.gets.Load(); gets != 2 {
		t.Errorf("%d GETs for 2 objects", gets)
	}
}

// A client that does not read causes no reads beyond one piece, and occupies no more memory; a
// client that reads causes none beyond the window.
func TestReadAheadIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		counted := &counting{Source: s}
		var entries []Entry
		for i := range 1000 {
			entries = append(entries, s.putZeros(fmt.Sprint(i), 100_000))
		}
		a := mustLayout(t, entries)
		r := a.Open(t.Context(), counted, 0, a.Size(), Options{Window: 4 << 20})
		defer r.Close()
		synctest.Wait()
		if got, held := counted.read.Load(), len(r.(*reader).window.buf); got > pieceSize || got < pieceSize/2 || held > pieceSize {
			t.Errorf("before the client reads, %d bytes were read ahead into %d", got, held)
		}
		const taken = 2 * pieceSize
		if _, err := io.CopyN(io.Discard, r, taken); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := counted.read.Load() - taken; got > 4<<20 || got < 3<<20 {
			t.Errorf("%d bytes were read ahead", got)
		}
		if n := s.opens.Load(); n > 42+taken/100_000 {
			t.Errorf("%d objects were opened", n)
		}
	})
}

// counting counts the bytes read.
type counting struct {
	Source
	read atomic.Int64
}

func (c *counting) Open(ctx context.Context, name string) (blob.Object, error) {
	o, err := c.Source.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &countingObject{o, c}, nil
}

type countingObject struct {
	blob.Object
	c *counting
}

func (o *countingObject) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.Object.ReadAt(p, off)
	o.c.read.Add(int64(n))
	return n, err
}
