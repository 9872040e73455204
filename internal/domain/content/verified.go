package content

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Open opens the content of a blob for verified reading. Small content is compared with its
// checksum first, except at a store with high latency, where that would cost a request. In larger
// content, each part that is read in order from its beginning is compared before its last bytes are
// returned; on a mismatch ReadAt fails. Content that does not match is marked as damaged. Errors
// are those of the store, and Internal wrapping a UnsoundError.
func (i Inspector) Open(ctx context.Context, b Blob) (blob.Object, error) {
	file, err := i.Store.Open(ctx, b.File)
	if err != nil {
		return nil, err
	}
	if file.Size() != b.Size {
		err = &UnsoundError{Blob: b.ID, Changed: true, Found: fmt.Sprintf("%d bytes instead of %d", file.Size(), b.Size)}
		return nil, i.refuse(ctx, b, errors.Join(err, file.Close()))
	}
	if _, here := file.(blob.MemoryObject); b.Size > smallContent || i.Store.Caps().HighLatency && !here {
		return &verifyingObject{Object: file, i: i, b: b, sums: i.sumReader(ctx, b), onBad: func(err error) error { return i.refuse(ctx, b, err) }, next: -1}, nil
	}
	bytes, err := readChecked(file, b)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, i.refuse(ctx, b, err)
	}
	return blob.MemoryObject(bytes), nil
}

// refuse reports a failed check of a blob's bytes and returns it as an Internal error. Errors of
// the store are returned as they are.
func (i Inspector) refuse(ctx context.Context, b Blob, cause error) error {
	cause = i.classify(b, cause)
	bad, ok := errors.AsType[*UnsoundError](cause)
	if !ok {
		return cause
	}
	ctx = context.WithoutCancel(ctx) // the client may be gone
	return drive.Wrap(errors.Join(bad, i.Report(ctx, b, bad)), drive.Internal)
}

// sumsPerRead is the number of part checksums read at once: 2.3 KB, for 512 MiB of content in parts
// of 8 MiB.
const sumsPerRead = 64

// sumReader returns a function that reads up to sumsPerRead checksums of a blob's parts, from part
// first on.
func (i Inspector) sumReader(ctx context.Context, b Blob) func(first int) ([]PartSum, error) {
	return func(first int) ([]PartSum, error) {
		var packed []byte
		err := i.DB.QueryRow(ctx, `SELECT SUBSTR(parts, ?, ?) FROM blobs WHERE id = ? AND file = ?`, first*partBytes+1, sumsPerRead*partBytes, b.ID, b.File).Scan(&packed)
		if err != nil {
			return nil, fmt.Errorf("read the sums of parts of blob %s: %w", b.ID, err)
		}
		return UnpackParts(packed)
	}
}

// verifyingObject is an open content whose parts are verified as they are read.
type verifyingObject struct {
	blob.Object
	i     Inspector
	b     Blob
	sums  func(first int) ([]PartSum, error) // reads checksums of parts from first on
	onBad func(err error) error              // handles a failed check and returns the error for the reader

	mu              sync.Mutex
	next            int64     // end of the bytes that crc covers; -1: none
	crc             uint32    // running checksum of the part being read
	sumsUnavailable bool      // checksums are unavailable: the blob is gone or healed, or the database does not answer
	first           int       // number of the first part in known
	known           []PartSum // checksums read from the database
}

// ReadAt reads bytes and verifies the parts that they complete; a mismatch or an unreadable disk is
// an Internal error.
func (v *verifyingObject) ReadAt(p []byte, off int64) (int, error) {
	n, err := v.Object.ReadAt(p, off)
	if Unreadable(err) {
		return 0, v.onBad(err)
	}
	for _, part := range v.add(p[:n], off) {
		if want, ok := v.sum(part.n); ok && want != part.crc {
			found := fmt.Sprintf("part %d has CRC-32 %08x instead of %08x", part.n, part.crc, want)
			return 0, v.onBad(&UnsoundError{Blob: v.b.ID, Changed: true, Found: found})
		}
	}
	return n, err
}

// finishedPart is a part that was read completely, in order.
type finishedPart struct {
	n   int
	crc uint32
}

// add continues the CRC-32 of the current part with the bytes p, read at off. It returns the parts
// that these bytes complete, with the checksums computed. A part that is not read in order from its
// beginning is not checked.
func (v *verifyingObject) add(p []byte, off int64) (parts []finishedPart) {
	v.mu.Lock()
	defer v.mu.Unlock()
	size := int64(v.b.PartSize)
	for len(p) > 0 && size > 0 {
		in := off % size
		some := p[:min(int64(len(p)), size-in)]
		switch {
		case in == 0:
			v.crc = crc32.ChecksumIEEE(some)
		case off == v.next:
			v.crc = crc32.Update(v.crc, crc32.IEEETable, some)
		default: // begins in the middle of a part
			v.next = -1
			p, off = p[len(some):], off+int64(len(some))
			continue
		}
		p, off = p[len(some):], off+int64(len(some))
		v.next = off
		if off%size == 0 || off == int64(v.b.Size) {
			parts = append(parts, finishedPart{int((off - 1) / size), v.crc})
		}
	}
	return parts
}

// sum returns the expected CRC-32 of part n of the content, and loads and caches a run of checksums
// from n on if it is not cached. It returns false if they are unavailable; a read error is logged,
// and from then on sum returns false for every part, so the rest is sent unverified.
func (v *verifyingObject) sum(n int) (uint32, bool) {
	v.mu.Lock()
	at, known, blind := n-v.first, v.known, v.sumsUnavailable
	v.mu.Unlock()
	if blind {
		return 0, false
	}
	if at < 0 || at >= len(known) {
		var err error
		if known, err = v.sums(n); err != nil || len(known) == 0 {
			if !drive.IsKind(err, drive.NotFound) {
				v.i.log().Warn("the checksums of a content could not be read; the rest of the download is sent unverified", "blob", v.b.ID, "error", err)
			}
			v.mu.Lock()
			v.sumsUnavailable = true
			v.mu.Unlock()
			return 0, false
		}
		v.mu.Lock()
		v.first, v.known = n, known
		v.mu.Unlock()
		at = 0
	}
	return known[at].CRC32, true
}
