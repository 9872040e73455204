package digest

import (
	"encoding/binary"
	"math/bits"

	"lukechampine.com/blake3/guts"
)

// words is a chaining value as the compression function wants it.
type words = [8]uint32

// Fold returns the digest of a file from the CVs of all its parts, in their order in the file;
// there must be at least two. The tree of BLAKE3 §2.1: the left subtree of n parts is the largest
// power of two below n.
//
// A file of one part has Part.Root instead: the root is marked inside the compression, so no CV
// leads to it.
func Fold(cvs []CV) Sum {
	if len(cvs) < 2 {
		panic("digest: fold of fewer than two parts")
	}
	return Sum(toBytes(guts.ChainingValue(join(cvs, guts.FlagRoot))))
}

// join returns the node above two or more parts.
func join(cvs []CV, flags uint32) guts.Node {
	left := 1 << (bits.Len(uint(len(cvs)-1)) - 1)
	return guts.ParentNode(subtree(cvs[:left]), subtree(cvs[left:]), &guts.IV, flags)
}

func subtree(cvs []CV) words {
	if len(cvs) == 1 {
		return toWords(cvs[0])
	}
	return guts.ChainingValue(join(cvs, 0))
}

// tree folds subtrees of one size as they come: a binary counter in which bit i of n says that
// stack[i] holds the chaining value of 2^i of them.
type tree struct {
	n     uint64
	stack [maxLevels]words
}

// maxLevels is enough for any file whose length is an int64, in groups of groupSize.
const maxLevels = 50

// push adds the next subtree. It must not be the last one of its part: only close knows what the
// top is.
func (t *tree) push(cv words) {
	level := 0
	for ; t.n>>level&1 == 1; level++ {
		cv = guts.ChainingValue(guts.ParentNode(t.stack[level], cv, &guts.IV, 0))
	}
	t.stack[level] = cv
	t.n++
}

// close returns the top node when n is the last subtree; the tree stays as it was.
func (t *tree) close(n guts.Node) guts.Node {
	for level := bits.TrailingZeros64(t.n); level < bits.Len64(t.n); level++ {
		if t.n>>level&1 == 1 {
			n = guts.ParentNode(t.stack[level], guts.ChainingValue(n), &guts.IV, 0)
		}
	}
	return n
}

func toWords(b [Size]byte) (w words) {
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return w
}

func toBytes(w words) (b [Size]byte) {
	for i, v := range w {
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
	return b
}
