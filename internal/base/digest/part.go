package digest

import (
	"errors"
	"math"

	"lukechampine.com/blake3/guts"
)

// groupSize is the number of bytes that are hashed at once: the 16 chunks that fill AVX-512 lanes.
// It is also the smallest part, and what the offset of a part must be a multiple of.
const groupSize = guts.MaxSIMD * guts.ChunkSize

// errTooLong comes from a write beyond the subtree that a part's offset allows.
var errTooLong = errors.New("digest: part is longer than the alignment of its offset")

// Part hashes one part of a file as it streams in, at 4 GB/s a core with AVX2. It is an io.Writer
// that allocates nothing and takes whole groups of 16 KiB straight from the caller's slice, so
// writes in multiples of 16 KiB copy nothing.
//
// A Part is 18 KiB; keep and Reset it where parts are many.
type Part struct {
	first uint64 // chunks of the file before this part
	room  int64  // bytes that may still come
	tree  tree   // all full groups but the newest
	last  guts.Node
	full  bool // last holds the newest full group, kept open because it may be the root
	n     int  // bytes in buf
	buf   [groupSize]byte
}

// NewPart returns a hasher for the part that begins at offset bytes in its file. The offset must be
// a multiple of the part size and so of 16 KiB; anything else is a mistake in the program and
// panics.
func NewPart(offset int64) *Part {
	p := new(Part)
	p.Reset(offset)
	return p
}

// Reset makes p as new, for a part at offset.
func (p *Part) Reset(offset int64) {
	if offset < 0 || offset%groupSize != 0 {
		panic("digest: part at an offset that is not a multiple of 16 KiB")
	}
	p.first, p.room = uint64(offset)/guts.ChunkSize, math.MaxInt64
	if offset > 0 {
		p.room = offset & -offset
	}
	p.tree.n, p.full, p.n = 0, false, 0
}

// Write implements io.Writer. It fails, with nothing hashed, only when the part would reach beyond
// the subtree that may begin at its offset: a second part of 8 MiB takes 8 MiB, a third one 16.
func (p *Part) Write(b []byte) (int, error) {
	total := len(b)
	if int64(total) > p.room {
		return 0, errTooLong
	}
	p.room -= int64(total)
	if p.n > 0 {
		c := copy(p.buf[p.n:], b)
		p.n, b = p.n+c, b[c:]
		if p.n == groupSize {
			p.add(&p.buf)
			p.n = 0
		}
	}
	for len(b) >= groupSize {
		p.add((*[groupSize]byte)(b))
		b = b[groupSize:]
	}
	p.n += copy(p.buf[p.n:], b)
	return total, nil
}

// add hashes a full group. The one before it is now known to be inside the tree.
func (p *Part) add(group *[groupSize]byte) {
	if p.full {
		p.tree.push(guts.ChainingValue(p.last))
	}
	p.last = guts.CompressBuffer(group, groupSize, &guts.IV, p.first+p.tree.n*guts.MaxSIMD, 0)
	p.full = true
}

// next returns the offset in the file of the byte that comes next.
func (p *Part) next() int64 {
	groups := p.tree.n
	if p.full {
		groups++
	}
	return int64(p.first*guts.ChunkSize+groups*groupSize) + int64(p.n)
}

// CV returns the chaining value of what was written so far, as a part of a file that has other
// parts too. More may be written.
func (p *Part) CV() CV { return CV(toBytes(guts.ChainingValue(p.top()))) }

// Both returns CV and Root, for the part at offset 0: what is not in the tree yet, which of a small
// file is all, is hashed once for them.
func (p *Part) Both() (CV, Sum) {
	n := p.top()
	return CV(toBytes(guts.ChainingValue(n))), p.root(n)
}

// Root returns the digest of what was written so far, as a whole file. More may be written. It is
// for the part at offset 0; on any other it panics, for that is not a digest of anything. Whoever
// does not know yet whether a second part will come keeps both CV and Root of the first.
func (p *Part) Root() Sum { return p.root(p.top()) }

func (p *Part) root(n guts.Node) Sum {
	if p.first != 0 {
		panic("digest: root of a part that is not the first")
	}
	n.Flags |= guts.FlagRoot
	return Sum(toBytes(guts.ChainingValue(n)))
}

// top returns the node above everything written so far and changes nothing.
func (p *Part) top() guts.Node {
	if !p.full {
		return guts.CompressBuffer(&p.buf, p.n, &guts.IV, p.first, 0)
	}
	if p.n == 0 {
		return p.tree.close(p.last)
	}
	t := p.tree
	t.push(guts.ChainingValue(p.last))
	return t.close(guts.CompressBuffer(&p.buf, p.n, &guts.IV, p.first+t.n*guts.MaxSIMD, 0))
}
