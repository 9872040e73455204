package nextcloud

import (
	"encoding/json"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// chunks is what is known about the chunks of an upload. It is stored as JSON in the upload's
// metadata; the offset of the upload itself is authoritative.
type chunks struct {
	First int64          `json:"first"`
	Last  int64          `json:"last"`
	Upto  drive.ByteSize `json:"upto"`            // offset at the end of chunk Last
	Bytes bool           `json:"bytes,omitempty"` // chunks are named by their byte range
	None  bool           `json:"none,omitempty"`  // no chunk has arrived
	Sums  []chunkSum     `json:"sums,omitempty"`  // of the last maxSums chunks
	From1 bool           `json:"from1,omitempty"` // the client numbers chunks from 1 (version 2)
	Ahead int64          `json:"ahead,omitempty"` // highest chunk refused because earlier ones are missing
}

// incomplete reports whether a chunk is known to be missing: none has arrived, or a later chunk was
// refused. False does not mean that the file is complete.
func (k chunks) incomplete() bool {
	switch {
	case k.None:
		return true
	case k.Bytes:
		return drive.ByteSize(k.Ahead) >= k.Upto && k.Ahead > 0
	}
	return k.Ahead > k.Last
}

// chunkSum identifies the content of a chunk, to tell a repeated chunk from another one.
type chunkSum struct {
	N   int64  `json:"n"`
	Sum []byte `json:"s"` // prefix of its SHA-256
}

const (
	maxSums = 64 // more than clients send concurrently; upload.MaxMetadata has room for them
	sumSize = 12 // bytes
)

// sum returns the stored sum of chunk n; nil if it has not arrived, or is not among the last
// maxSums.
func (k chunks) sum(n int64) []byte {
	for _, c := range k.Sums {
		if c.N == n {
			return c.Sum
		}
	}
	return nil
}

// text encodes the state as JSON, as it is stored in the upload's metadata.
func (k chunks) text() string {
	raw, _ := json.Marshal(k) // numbers and booleans always encode
	return string(raw)
}

// maxNumber is above every client's highest chunk number.
const maxNumber = 10_000

// isOffset reports whether the number in the name of a chunk is the offset of its bytes, as clients
// of ownCloud name chunks, although the name does not say so. This shows from the second chunk on:
// its number is the end of the first.
func (k chunks) isOffset(n chunkName) bool {
	if n.bytes || k.None {
		return false
	}
	return k.Bytes || k.First == 0 && k.Last == 0 && n.number > maxNumber && drive.ByteSize(n.number) == k.Upto
}

// verdict is the decision whether a chunk is appended now, later or not at all.
type verdict uint8

const (
	accept         verdict = iota // append it
	duplicate                     // it has arrived before
	premature                     // earlier chunks are missing
	maybePremature                // an earlier one may be missing: some clients number from 0 and send concurrently
	mismatch                      // it does not fit
)

// classify decides about a chunk. size is its size, possibly blob.UnknownSize; offset is the number
// of bytes that the upload has. skip is how many of the chunk's first bytes have arrived already;
// it is only set with accept.
func (k chunks) classify(n chunkName, size, offset drive.ByteSize) (skip drive.ByteSize, v verdict) {
	extra := offset - k.Upto // arrived but not recorded: it belongs to this chunk
	switch {
	case !k.None && k.Bytes != n.bytes:
		return 0, mismatch
	case k.noted(n.number):
		return 0, duplicate
	case k.None && n.number == 1 && !n.bytes && !k.From1:
		return 0, maybePremature
	case n.bytes && drive.ByteSize(n.number) > offset, !n.bytes && n.number > max(k.Last, 0)+1:
		return 0, premature
	case n.bytes && drive.ByteSize(n.number) == offset:
		return 0, accept
	case n.bytes && drive.ByteSize(n.number) != k.Upto, !n.bytes && !k.None && n.number <= k.Last:
		return 0, mismatch
	case extra > 0 && size == extra:
		return 0, duplicate
	case extra > 0 && size != blob.UnknownSize && size < extra:
		return 0, mismatch
	}
	return extra, accept
}

// noted reports whether the sum of chunk n is stored, so that the chunk has arrived.
func (k chunks) noted(n int64) bool { return k.sum(n) != nil }
