package local

import (
	"slices"
	"sync"

	"smartdrive/internal/engine/blob/local/pack"
)

// Sizes of buffers in bytes. Reading into 1 MiB instead of 32 KiB halves the CPU of an upload;
// below 256 KiB the loss is felt.
const (
	largeBuffer = 1 << 20
	busyBuffer  = largeBuffer / slabQuarters
	smallBuffer = 32 << 10
	frameBuffer = pack.HeadSize + pack.MaxContent + 1 // more than that is too much

	slabQuarters = 4
	wholeSlab    = 1<<slabQuarters - 1
)

// buffers hands out large buffers within a budget, and small ones beside it.
type buffers struct {
	small sync.Pool
	frame sync.Pool // of what lies in a pack, with its head

	mu    sync.Mutex
	slabs []*slab // made as they are needed
	limit int     // most slabs
	inUse int     // quarters
}

// slab is 1 MiB that is lent as a whole or in quarters.
type slab struct {
	used uint8 // bit i: quarter i is lent
	buf  [largeBuffer]byte
}

// lease is a borrowed buffer; the zero lease is none.
type lease struct {
	buf  []byte
	slab *slab
	used uint8
}

func (l lease) held() bool { return l.slab != nil }

func newBuffers(budget int64) *buffers {
	return &buffers{
		small: sync.Pool{New: func() any { return new([smallBuffer]byte) }},
		frame: sync.Pool{New: func() any { return new([frameBuffer]byte) }},
		limit: int(budget / largeBuffer),
	}
}

func (b *buffers) takeSmall() *[smallBuffer]byte  { return b.small.Get().(*[smallBuffer]byte) }
func (b *buffers) giveSmall(s *[smallBuffer]byte) { b.small.Put(s) }

func (b *buffers) takeFrame() *[frameBuffer]byte  { return b.frame.Get().(*[frameBuffer]byte) }
func (b *buffers) giveFrame(s *[frameBuffer]byte) { b.frame.Put(s) }

// take lends a buffer for a stream of which want bytes are to come: 1 MiB, or 256 KiB when half of
// the budget is lent or no more is wanted, or none.
func (b *buffers) take(want int64) lease {
	if want <= smallBuffer {
		return lease{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if want > busyBuffer && b.inUse < b.limit*slabQuarters/2 {
		if s := b.findLocked(0); s != nil {
			return b.lendLocked(s, 0, wholeSlab)
		}
	}
	if s := b.findLocked(1); s != nil {
		for i := range slabQuarters {
			if s.used&(1<<i) == 0 {
				return b.lendLocked(s, i*busyBuffer, 1<<i)
			}
		}
	}
	return lease{}
}

// findLocked returns a slab: with part = 1 the fullest that has a quarter left, so that whole ones
// stay whole; with part = 0 an unused one.
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

func (b *buffers) lendLocked(s *slab, off int, used uint8) lease {
	s.used |= used
	size := busyBuffer
	if used == wholeSlab {
		size = largeBuffer
	}
	b.inUse += size / busyBuffer
	return lease{buf: s.buf[off : off+size], slab: s, used: used}
}

// give takes a buffer back; the zero lease is ignored.
func (b *buffers) give(l lease) {
	if !l.held() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.slab.used &^= l.used
	b.inUse -= len(l.buf) / busyBuffer
}
