package digest

import (
	"encoding/binary"
	"math/bits"

	"lukechampine.com/blake3/guts"
)

// words is a chaining value in the form of the compression function.
type words = [8]uint32

// Fold returns the digest of a file from the CVs of all its parts, in order. It panics for fewer
// than two parts. The tree follows BLAKE3 §2.1: the left subtree of n parts is the largest power of
// two below n.
//
// The digest of a file of one part is Part.Root: the root flag is an input of the compression, so
// the digest cannot be computed from the CV.
func Fold(cvs []CV) Sum {
	if len(cvs) < 2 {
		panic("digest: fold of fewer than two parts")
	}
	return Sum(toBytes(guts.ChainingValue(join(cvs, guts.FlagRoot))))
}

// join returns the BLAKE3 node above two or more parts, from their chaining values in order. flags
// are the flags of that node, such as the one of a root.
func join(cvs []CV, flags uint32) guts.Node {
	left := 1 << (bits.Len(uint(len(cvs)-1)) - 1)
	return guts.ParentNode(subtree(cvs[:left]), subtree(cvs[left:]), &guts.IV, flags)
}

// subtree returns the chaining value of one or more parts, given by theirs, in order. cvs must not
// be empty.
func subtree(cvs []CV) words {
	if len(cvs) == 1 {
		return toWords(cvs[0])
	}
	return guts.ChainingValue(join(cvs, 0))
}

// tree folds equal subtrees as they arrive. It works like a binary counter: if bit i of n is set,
// stack[i] holds the chaining value of 2^i subtrees.
type tree struct {
	n     uint64
	stack [maxLevels]words
}

// maxLevels suffices for any file with an int64 length, in groups of groupSize.
const maxLevels = 50

// push adds the next subtree. The last subtree of a part must be passed to close instead, which
// determines the top node.
func (t *tree) push(cv words) {
	level := 0
	for ; t.n>>level&1 == 1; level++ {
		cv = guts.ChainingValue(guts.ParentNode(t.stack[level], cv, &guts.IV, 0))
	}
	t.stack[level] = cv
	t.n++
}

// close returns the top node for n as the last subtree. It does not change the tree.
func (t *tree) close(n guts.Node) guts.Node {
	for level := bits.TrailingZeros64(t.n); level < bits.Len64(t.n); level++ {
		if t.n>>level&1 == 1 {
			n = guts.ParentNode(t.stack[level], guts.ChainingValue(n), &guts.IV, 0)
		}
	}
	return n
}

// toWords decodes a chaining value.
func toWords(b [Size]byte) (w words) {
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return w
}

// toBytes encodes a chaining value.
func toBytes(w words) (b [Size]byte) {
	for i, v := range w {
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
	return b
}
