package nextcloud

import (
	"encoding/json"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// chunks is what is kept of the numbers of chunks.
type chunks struct {
	First int64          `json:"first"`
	Last  int64          `json:"last"`
	Upto  drive.ByteSize `json:"upto"`            // where it ends
	Bytes bool           `json:"bytes,omitempty"` // they are named by their range
	None  bool           `json:"none,omitempty"`  // none has come
	Sums  []noted        `json:"sums,omitempty"`  // of the last maxNoted ones
	From1 bool           `json:"from1,omitempty"` // the client numbers them from 1 (version 2)
	Ahead int64          `json:"ahead,omitempty"` // the highest one that was refused, since others before it had not come
}

// lacking reports whether it is known that the file has more than what has come.
func (k chunks) lacking() bool {
	switch {
	case k.None:
		return true
	case k.Bytes:
		return drive.ByteSize(k.Ahead) >= k.Upto && k.Ahead > 0
	}
	return k.Ahead > k.Last
}

// noted is what is kept of the content of a chunk.
type noted struct {
	N   int64  `json:"n"`
	Sum []byte `json:"s"` // the beginning of its SHA-256
}

const (
	maxNoted = 64 // more than a client sends at the same time; upload.MaxMetadata has room for so many
	sumSize  = 12 // bytes
)

// sum returns the sum of a chunk that has come; nil: it is not known.
func (k chunks) sum(n int64) []byte {
	for _, c := range k.Sums {
		if c.N == n {
			return c.Sum
		}
	}
	return nil
}

func (k chunks) text() string {
	raw, _ := json.Marshal(k) // numbers and booleans
	return string(raw)
}

// maxNumber is more than any client numbers its chunks up to.
const maxNumber = 10_000

// isPlace reports whether the number of a chunk is where its bytes begin: clients of ownCloud name
// chunks so, without an end. It is known from the second chunk on.
func (k chunks) isPlace(n chunkName) bool {
	if n.bytes || k.None {
		return false
	}
	return k.Bytes || k.First == 0 && k.Last == 0 && n.number > maxNumber && drive.ByteSize(n.number) == k.Upto
}

// verdict is what becomes of a chunk.
type verdict uint8

const (
	next  verdict = iota // it is to be added
	has                  // it has come before
	later                // those before it are missing
	maybe                // there may be one before it: some clients number from 0, and send several at a time
	wrong                // it does not fit
)

// judge says what becomes of a chunk of a size, or of unknown size, where so much of the file has
// come; skip is how many of its bytes are there already.
func (k chunks) judge(n chunkName, size, offset drive.ByteSize) (skip drive.ByteSize, v verdict) {
	extra := offset - k.Upto // has come and is not noted: it belongs to the next one
	switch {
	case !k.None && k.Bytes != n.bytes:
		return 0, wrong
	case k.noted(n.number):
		return 0, has
	case k.None && n.number == 1 && !n.bytes && !k.From1:
		return 0, maybe
	case n.bytes && drive.ByteSize(n.number) > offset, !n.bytes && n.number > max(k.Last, 0)+1:
		return 0, later
	case n.bytes && drive.ByteSize(n.number) == offset:
		return 0, next
	case n.bytes && drive.ByteSize(n.number) != k.Upto, !n.bytes && !k.None && n.number <= k.Last:
		return 0, wrong
	case extra > 0 && size == extra:
		return 0, has
	case extra > 0 && size != blob.UnknownSize && size < extra:
		return 0, wrong
	}
	return extra, next
}

// noted reports whether a chunk has come and its sum is known.
func (k chunks) noted(n int64) bool { return k.sum(n) != nil }
