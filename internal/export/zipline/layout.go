package zipline

import (
	"crypto/sha256"
	"encoding/hex"
	"sort"

	"smartdrive/internal/base/drive"
)

// LayoutVersion is part of the ETag. It changes with any change of what Layout makes of the same
// manifest.
const LayoutVersion = 1

// Archive is a layout. It is immutable and safe for concurrent use.
//
//	0              local header of entry 0 | content of entry 0
//	starts[1]      local header of entry 1 | content of entry 1
//	...
//	starts[n]      central header of entry 0 | ... | central header of entry n-1
//	tail           end records
//	size
//
// Only where entries begin is kept; headers are made when they are read.
type Archive struct {
	entries []Entry
	starts  []int64 // of the local headers, and of the central directory
	central []int64 // of the central headers, and of the end records
	size    int64
	etag    string
}

// maxSize is the longest archive: offsets stay far from the end of int64.
const maxSize = 1 << 60

// Layout lays the entries out in the order in which they come. It keeps the slice. Names that lead
// out of the archive or are there twice are BadName; those of SafeNames never are.
func Layout(entries []Entry) (*Archive, error) {
	if err := checkEntries(entries); err != nil {
		return nil, err
	}
	n := len(entries)
	a := &Archive{entries: entries, starts: make([]int64, n+1), central: make([]int64, n+1)}
	var at int64
	for i := range entries {
		a.starts[i] = at
		if at += localSize(&entries[i]) + int64(entries[i].Size); at > maxSize {
			return nil, drive.Fail(drive.TooLarge, "limit", int64(maxSize))
		}
	}
	a.starts[n] = at
	for i := range entries {
		a.central[i] = at
		at += centralSize(&entries[i], a.starts[i])
	}
	a.central[n] = at
	a.size = at + int64(len(a.end()))
	sum := sha256.Sum256(append(Encode(entries), LayoutVersion))
	a.etag = `"` + hex.EncodeToString(sum[:]) + `"`
	return a, nil
}

// Size is the exact length of the archive.
func (a *Archive) Size() drive.ByteSize { return drive.ByteSize(a.size) }

// ETag is the strong validator of the archive, quoted: a function of manifest and LayoutVersion.
func (a *Archive) ETag() string { return a.etag }

// Len is the number of entries.
func (a *Archive) Len() int { return len(a.entries) }

// Entry returns the i-th entry of the manifest.
func (a *Archive) Entry(i int) Entry { return a.entries[i] }

// Parts is the number of pieces of the given size that the archive has: those of a multipart
// upload.
func (a *Archive) Parts(size drive.ByteSize) int {
	return int((a.Size() + size - 1) / size)
}

// Part returns the bytes [from, to) of the archive that are its k-th part, counted from 0.
func (a *Archive) Part(k int, size drive.ByteSize) (from, to drive.ByteSize) {
	from = min(drive.ByteSize(k)*size, a.Size())
	return from, min(from+size, a.Size())
}

// content returns where the content of entry i begins and ends in the archive.
func (a *Archive) content(i int) (from, to int64) {
	return a.starts[i+1] - int64(a.entries[i].Size), a.starts[i+1]
}

// segment is a stretch of an archive: glue, or the content of an entry.
type segment struct {
	from, to int64  // in the archive
	entry    int    // whose content it is; -1: glue
	glue     []byte // to-from bytes
}

// find returns the number of the segment that holds byte off. Segments 2i and 2i+1 are local header
// and content of entry i; after them come the central headers and at last the end records.
func (a *Archive) find(off int64) int {
	n := len(a.entries)
	if off < a.starts[n] {
		i := sort.Search(n, func(i int) bool { return a.starts[i+1] > off })
		if from, _ := a.content(i); off >= from {
			return 2*i + 1
		}
		return 2 * i
	}
	return 2*n + sort.Search(n, func(i int) bool { return a.central[i+1] > off })
}

// segment returns the k-th segment. There are segments() of them.
func (a *Archive) segment(k int) segment {
	n := len(a.entries)
	switch i := k / 2; {
	case k == 3*n:
		return segment{from: a.central[n], to: a.size, entry: -1, glue: a.end()}
	case k >= 2*n:
		return segment{from: a.central[k-2*n], to: a.central[k-2*n+1], entry: -1, glue: a.centralHeader(k - 2*n)}
	case k%2 == 0:
		from, _ := a.content(i)
		return segment{from: a.starts[i], to: from, entry: -1, glue: localHeader(&a.entries[i])}
	default:
		from, to := a.content(i)
		return segment{from: from, to: to, entry: i}
	}
}

func (a *Archive) segments() int { return 3*len(a.entries) + 1 }
