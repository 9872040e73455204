package digest

import (
	"errors"
	"math"

	"lukechampine.com/blake3/guts"
)

// groupSize is the number of bytes hashed at once: the 16 chunks that fill AVX-512 lanes. Part
// offsets must be multiples of it, and it is the smallest part size.
const groupSize = guts.MaxSIMD * guts.ChunkSize

// errTooLong reports a write beyond the subtree that may begin at the part's offset.
var errTooLong = errors.New("digest: part is longer than the alignment of its offset")

// Part hashes one part of a file as it streams in, at 4 GB/s per core with AVX2. It is an io.Writer
// that allocates nothing and hashes whole groups of 16 KiB directly from the caller's slice; writes
// in multiples of 16 KiB are not copied.
//
// A Part has 18 KiB. A caller with many parts should reuse it with Reset.
type Part struct {
	first     uint64    // number of chunks in the file before this part
	remaining int64     // bytes that may still be written
	tree      tree      // all full groups except the newest
	last      guts.Node // the newest full group, if full is set
	full      bool      // last is set; it is not in tree yet because it may be the root
	n         int       // bytes in buf
	buf       [groupSize]byte
}

// NewPart returns a Part for the part at offset bytes in its file. It panics unless offset is a
// multiple of 16 KiB.
func NewPart(offset int64) *Part {
	p := new(Part)
	p.Reset(offset)
	return p
}

// Reset clears p for a part at offset bytes in its file. It panics unless offset is a multiple of
// 16 KiB.
func (p *Part) Reset(offset int64) {
	if offset < 0 || offset%groupSize != 0 {
		panic("digest: part at an offset that is not a multiple of 16 KiB")
	}
	p.first, p.remaining = uint64(offset)/guts.ChunkSize, math.MaxInt64
	if offset > 0 {
		p.remaining = offset & -offset
	}
	p.tree.n, p.full, p.n = 0, false, 0
}

// Write hashes b. It fails, without hashing anything, only if the part would be longer than the
// subtree that may begin at its offset. With parts of 8 MiB, for example, the second accepts 8 MiB
// and the third 16 MiB.
func (p *Part) Write(b []byte) (int, error) {
	total := len(b)
	if int64(total) > p.remaining {
		return 0, errTooLong
	}
	p.remaining -= int64(total)
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

// add hashes a full group. The previous group is then known not to be the root.
func (p *Part) add(group *[groupSize]byte) {
	if p.full {
		p.tree.push(guts.ChainingValue(p.last))
	}
	p.last = guts.CompressBuffer(group, groupSize, &guts.IV, p.first+p.tree.n*guts.MaxSIMD, 0)
	p.full = true
}

// next returns the offset in the file of the next byte to be written.
func (p *Part) next() int64 {
	groups := p.tree.n
	if p.full {
		groups++
	}
	return int64(p.first*guts.ChunkSize+groups*groupSize) + int64(p.n)
}

// CV returns the chaining value of the bytes written so far, as a part of a file with other parts.
// More bytes may be written afterwards.
func (p *Part) CV() CV { return CV(toBytes(guts.ChainingValue(p.top()))) }

// CVAndRoot returns CV and Root of the part at offset 0, hashing the bytes that are not in the tree
// only once. It panics for other offsets.
func (p *Part) CVAndRoot() (CV, Sum) {
	n := p.top()
	return CV(toBytes(guts.ChainingValue(n))), p.root(n)
}

// Root returns the digest of the bytes written so far, as a whole file. More bytes may be written
// afterwards. It panics unless the part is at offset 0. A caller that does not know whether a
// second part follows must keep both CV and Root of the first.
func (p *Part) Root() Sum { return p.root(p.top()) }

// root returns the digest of a file whose top node is n. It panics unless the part begins at offset
// 0, because only then is the part a file of its own.
func (p *Part) root(n guts.Node) Sum {
	if p.first != 0 {
		panic("digest: root of a part that is not the first")
	}
	n.Flags |= guts.FlagRoot
	return Sum(toBytes(guts.ChainingValue(n)))
}

// top returns the node above all bytes written so far. It does not change p.
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
