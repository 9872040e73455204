package content

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Open opens the content of a blob so that no wrong byte of it leaves unnoticed. Small content is
// compared with its checksum first, except at a far store, where that would be one request more. Of
// larger content each part that is read in order, from its beginning, is compared before its last
// bytes are returned: those readers get an error instead, which ends their connection. What does
// not agree is marked as damaged. Errors: those of the store; Internal wraps a BadError.
func (i Inspector) Open(ctx context.Context, b Blob) (blob.Object, error) {
	file, err := i.Store.Open(ctx, b.File)
	if err != nil {
		return nil, err
	}
	if file.Size() != b.Size {
		err = &BadError{Blob: b.ID, Changed: true, Found: fmt.Sprintf("%d bytes instead of %d", file.Size(), b.Size)}
		return nil, i.refuse(ctx, b, errors.Join(err, file.Close()))
	}
	if _, here := file.(blob.InMemory); b.Size > smallContent || i.Store.Caps().Far && !here {
		return &verifying{Object: file, i: i, b: b, sums: i.sumsOf(ctx, b), bad: func(err error) error { return i.refuse(ctx, b, err) }, next: -1}, nil
	}
	bytes, err := readChecked(file, b)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, i.refuse(ctx, b, err)
	}
	return blob.InMemory(bytes), nil
}

// refuse reports what is wrong with the bytes of a blob, and returns it as an error of the server.
func (i Inspector) refuse(ctx context.Context, b Blob, cause error) error {
	cause = i.judge(b, cause)
	bad, ok := errors.AsType[*BadError](cause)
	if !ok {
		return cause
	}
	ctx = context.WithoutCancel(ctx) // the reader may have gone
	return drive.Wrap(errors.Join(bad, i.Report(ctx, b, bad)), drive.Internal)
}

// sumsAhead is how many sums of parts are read at once: 2.3 KB, for 512 MiB of content of parts of
// 8 MiB.
const sumsAhead = 64

// sumsOf returns what reads the sums of parts of a blob, from one on.
func (i Inspector) sumsOf(ctx context.Context, b Blob) func(first int) ([]PartSum, error) {
	return func(first int) ([]PartSum, error) {
		var packed []byte
		err := i.DB.QueryRow(ctx, `SELECT SUBSTR(parts, ?, ?) FROM blobs WHERE id = ? AND file = ?`, first*partBytes+1, sumsAhead*partBytes, b.ID, b.File).Scan(&packed)
		if err != nil {
			return nil, fmt.Errorf("read the sums of parts of blob %s: %w", b.ID, err)
		}
		return UnpackParts(packed)
	}
}

// verifying is open content whose parts are compared as they are read.
type verifying struct {
	blob.Object
	i    Inspector
	b    Blob
	sums func(first int) ([]PartSum, error)
	bad  func(err error) error

	mu    sync.Mutex
	next  int64  // where the run of bytes that crc covers ends; -1: there is none
	crc   uint32 // of the part that is being read
	blind bool   // the sums are not to be had: the blob has gone or was healed, or the database does not answer
	first int    // part that known begins with
	known []PartSum
}

// ReadAt implements blob.Object.
func (v *verifying) ReadAt(p []byte, off int64) (int, error) {
	n, err := v.Object.ReadAt(p, off)
	if Unreadable(err) {
		return 0, v.bad(err)
	}
	for _, part := range v.feed(p[:n], off) {
		if want, ok := v.sum(part.n); ok && want != part.crc {
			found := fmt.Sprintf("part %d has CRC-32 %08x instead of %08x", part.n, part.crc, want)
			return 0, v.bad(&BadError{Blob: v.b.ID, Changed: true, Found: found})
		}
	}
	return n, err
}

// ended is a part all of whose bytes were read in order.
type ended struct {
	n   int
	crc uint32
}

// feed adds what was read, and returns the parts that end with it.
func (v *verifying) feed(p []byte, off int64) (parts []ended) {
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
		default: // somebody has begun in the middle of a part
			v.next = -1
			p, off = p[len(some):], off+int64(len(some))
			continue
		}
		p, off = p[len(some):], off+int64(len(some))
		v.next = off
		if off%size == 0 || off == int64(v.b.Size) {
			parts = append(parts, ended{int((off - 1) / size), v.crc})
		}
	}
	return parts
}

// sum returns the checksum of a part; false: it is not known, or the database does not answer.
func (v *verifying) sum(n int) (uint32, bool) {
	v.mu.Lock()
	at, known, blind := n-v.first, v.known, v.blind
	v.mu.Unlock()
	if blind {
		return 0, false
	}
	if at < 0 || at >= len(known) {
		var err error
		if known, err = v.sums(n); err != nil || len(known) == 0 {
			if !drive.IsKind(err, drive.NotFound) {
				v.i.log().Warn("the rest of a download is not verified", "blob", v.b.ID, "error", err)
			}
			v.mu.Lock()
			v.blind = true
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
