package local

import (
	"slices"
	"sync"

	"example.org/smartdrive/internal/engine/blob/local/pack"
)

// Sizes of buffers in bytes. Reading 1 MiB instead of 32 KiB at a time halves the CPU time of an
// upload; below 256 KiB throughput falls.
const (
	largeBuffer   = 1 << 20
	quarterBuffer = largeBuffer / slabQuarters
	smallBuffer   = 32 << 10
	frameBuffer   = pack.HeaderSize + pack.MaxContent + 1 // one byte more detects content that is too large

	slabQuarters = 4
	wholeSlab    = 1<<slabQuarters - 1
)

// buffers lends large buffers within a memory budget, and small ones without a limit.
type buffers struct {
	small sync.Pool
	frame sync.Pool // buffers for content in packs, with its header

	mu    sync.Mutex
	slabs []*slab // allocated on demand
	limit int     // maximum number of slabs
	inUse int     // quarters lent
}

// slab is 1 MiB of memory, lent as a whole or in quarters.
type slab struct {
	used uint8 // bit i is set while quarter i is lent
	buf  [largeBuffer]byte
}

// loan is a large buffer borrowed from buffers, which must be given back; the zero value is none.
type loan struct {
	buf  []byte // the bytes to use
	slab *slab  // that buf is part of
	used uint8  // bits of slab.used that the loan has set
}

// held reports whether l holds a buffer, which the borrower must give back; false for the zero
// loan.
func (l loan) held() bool { return l.slab != nil }

// newBuffers returns buffers with a budget in bytes for large ones.
func newBuffers(budget int64) *buffers {
	return &buffers{
		small: sync.Pool{New: func() any { return new([smallBuffer]byte) }},
		frame: sync.Pool{New: func() any { return new([frameBuffer]byte) }},
		limit: int(budget / largeBuffer),
	}
}

// getSmall borrows a small buffer; the caller returns it with putSmall.
func (b *buffers) getSmall() *[smallBuffer]byte { return b.small.Get().(*[smallBuffer]byte) }

// putSmall returns a small buffer to the pool.
func (b *buffers) putSmall(s *[smallBuffer]byte) { b.small.Put(s) }

// getFrame borrows a buffer for content in packs; the caller returns it with putFrame.
func (b *buffers) getFrame() *[frameBuffer]byte { return b.frame.Get().(*[frameBuffer]byte) }

// putFrame returns a frame buffer to the pool.
func (b *buffers) putFrame(s *[frameBuffer]byte) { b.frame.Put(s) }

// borrow borrows a large buffer for a stream of up to want more bytes; the caller returns it with
// giveBack. It returns 1 MiB, or 256 KiB if half of the budget is lent or want is small, or the
// zero loan if nothing is left or want fits a small buffer.
func (b *buffers) borrow(want int64) loan {
	if want <= smallBuffer {
		return loan{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if want > quarterBuffer && b.inUse < b.limit*slabQuarters/2 {
		if s := b.findLocked(0); s != nil {
			return b.borrowLocked(s, 0, wholeSlab)
		}
	}
	if s := b.findLocked(1); s != nil {
		for i := range slabQuarters {
			if s.used&(1<<i) == 0 {
				return b.borrowLocked(s, i*quarterBuffer, 1<<i)
			}
		}
	}
	return loan{}
}

// findLocked returns a slab to lend from, and makes one within b.limit; nil if all are lent. With
// part = 1 it returns a slab with a free quarter, a partly lent one if there is any, so that unused
// ones stay whole. With part = 0 it returns an unused one. The caller holds b.mu.
func (b *buffers) findLocked(part int) *slab {
	if part == 1 {
		i := slices.IndexFunc(b.slabs, func(s *slab) bool { return s.used != 0 && s.used != wholeSlab })
		if i >= 0 {
			return b.slabs[i]
		}
	}
	if i := slices.IndexFunc(b.slabs, func(s *slab) bool { return s.used == 0 }); i >= 0 {
		return b.slabs[i]
	}
	if len(b.slabs) == b.limit {
		return nil
	}
	s := new(slab)
	b.slabs = append(b.slabs, s)
	return s
}

// borrowLocked marks the quarters in the bit set used of s as lent and returns their bytes, from
// offset off. The caller holds b.mu and returns the loan with giveBack.
func (b *buffers) borrowLocked(s *slab, off int, used uint8) loan {
	s.used |= used
	size := quarterBuffer
	if used == wholeSlab {
		size = largeBuffer
	}
	b.inUse += size / quarterBuffer
	return loan{buf: s.buf[off : off+size], slab: s, used: used}
}

// giveBack returns a borrowed buffer; the zero loan is ignored.
func (b *buffers) giveBack(l loan) {
	if !l.held() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.slab.used &^= l.used
	b.inUse -= len(l.buf) / quarterBuffer
}
