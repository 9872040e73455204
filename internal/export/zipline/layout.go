package zipline

import (
	"crypto/sha256"
	"encoding/hex"
	"sort"

	"example.org/smartdrive/internal/base/drive"
)

// LayoutVersion is part of the ETag. Increment it with each change of the bytes that Layout
// produces for a manifest.
const LayoutVersion = 1

// Archive is the layout of a zip. It is immutable and safe for concurrent use.
//
//	0              local header of entry 0 | content of entry 0
//	starts[1]      local header of entry 1 | content of entry 1
//	...
//	starts[n]      central header of entry 0 | ... | central header of entry n-1
//	tail           end records
//	size
//
// Only the offsets of entries are kept; headers are computed when they are read.
type Archive struct {
	entries []Entry
	starts  []int64 // offsets of the local headers, then of the central directory
	central []int64 // offsets of the central headers, then of the end records
	size    int64
	etag    string
}

// maxSize is the largest archive in bytes, far below the limit of int64.
const maxSize = 1 << 60

// Layout lays out the entries in the given order and keeps the slice. Unsafe or duplicate names are
// BadName; names from SafeNames never are. Above maxSize it returns TooLarge.
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
	a.size = at + int64(len(a.endRecords()))
	sum := sha256.Sum256(append(Encode(entries), LayoutVersion))
	a.etag = `"` + hex.EncodeToString(sum[:]) + `"`
	return a, nil
}

// Size returns the exact length of the archive.
func (a *Archive) Size() drive.ByteSize { return drive.ByteSize(a.size) }

// ETag returns the quoted strong validator of the archive, which depends only on manifest and
// LayoutVersion.
func (a *Archive) ETag() string { return a.etag }

// Len returns the number of entries.
func (a *Archive) Len() int { return len(a.entries) }

// Entry returns the entry i of the zip, from 0 to Len()-1; it panics for another i.
func (a *Archive) Entry(i int) Entry { return a.entries[i] }

// Parts returns the number of parts of the given size in the archive, as for a multipart upload.
func (a *Archive) Parts(size drive.ByteSize) int {
	return int((a.Size() + size - 1) / size)
}

// Part returns the byte range [from, to) of part k, counted from 0.
func (a *Archive) Part(k int, size drive.ByteSize) (from, to drive.ByteSize) {
	from = min(drive.ByteSize(k)*size, a.Size())
	return from, min(from+size, a.Size())
}

// contentRange returns the byte range of the content of entry i in the archive.
func (a *Archive) contentRange(i int) (from, to int64) {
	return a.starts[i+1] - int64(a.entries[i].Size), a.starts[i+1]
}

// segment is a contiguous range of an archive: glue, or the content of one entry.
type segment struct {
	from, to int64  // offsets in the archive
	entry    int    // index of the entry; -1: glue
	glue     []byte // the to-from bytes of a glue segment
}

// segmentAt returns the index of the segment that contains offset off. Segments 2i and 2i+1 are the
// local header and content of entry i; then follow the central headers and the end records.
func (a *Archive) segmentAt(off int64) int {
	n := len(a.entries)
	if off < a.starts[n] {
		i := sort.Search(n, func(i int) bool { return a.starts[i+1] > off })
		if from, _ := a.contentRange(i); off >= from {
			return 2*i + 1
		}
		return 2 * i
	}
	return 2*n + sort.Search(n, func(i int) bool { return a.central[i+1] > off })
}

// segment returns segment k, from 0 to segments()-1, in the order of the zip: local header and
// content of each entry, then the directory and the end records.
func (a *Archive) segment(k int) segment {
	n := len(a.entries)
	switch i := k / 2; {
	case k == 3*n:
		return segment{from: a.central[n], to: a.size, entry: -1, glue: a.endRecords()}
	case k >= 2*n:
		return segment{from: a.central[k-2*n], to: a.central[k-2*n+1], entry: -1, glue: a.centralHeader(k - 2*n)}
	case k%2 == 0:
		from, _ := a.contentRange(i)
		return segment{from: a.starts[i], to: from, entry: -1, glue: localHeader(&a.entries[i])}
	default:
		from, to := a.contentRange(i)
		return segment{from: from, to: to, entry: i}
	}
}

// segments returns the number of segments.
func (a *Archive) segments() int { return 3*len(a.entries) + 1 }
