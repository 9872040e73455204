package upload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// prefixHasher computes the declared digests other than BLAKE3, which need the bytes in order. It
// follows the received prefix while parts arrive, reading from the page cache; the seal hashes the
// rest. Its state lives in memory while the upload is active and starts over after a restart.
type prefixHasher struct {
	mu   sync.Mutex // held while hashing
	hash *digest.Running
	busy bool // a goroutine runs it; guarded by liveUpload.mu
}

// hashers starts and runs the prefix hashers of this process.
type hashers struct {
	staging blob.Staging
	shared  bool // hash nothing early: another instance may replace hashed bytes
	table   *liveTable
	work    *background
}

// start starts a goroutine for the upload's hasher if new bytes extend the prefix and none runs.
func (h *hashers) start(l *liveUpload) {
	if h.shared || !readableParts(h.staging) {
		return
	}
	f, row := l.claimHasher()
	if f == nil {
		return
	}
	held := h.table.acquire(l.id)
	h.work.run(func(ctx context.Context) {
		defer h.table.release(held)
		h.run(ctx, l, f, row)
	})
}

// claimHasher returns the upload's hasher and marks it busy, or nil if there is nothing to hash or
// a goroutine already runs it.
func (l *liveUpload) claimHasher() (*prefixHasher, Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	algos := l.row.Digests.Aliases()
	if len(algos) == 0 || !l.loaded || l.row.State != Active {
		return nil, Row{}
	}
	if l.hasher == nil || !covers(l.hasher.hash, algos) {
		l.hasher, l.hashed = &prefixHasher{hash: digest.NewRunning(algos...)}, 0
	}
	if l.hasher.busy || l.prefixLocked() == l.hashed {
		return nil, Row{}
	}
	l.hasher.busy = true
	return l.hasher, l.row
}

// covers reports whether hash computes each of algos. It returns true for no algos.
func covers(hash *digest.Running, algos []digest.Algo) bool {
	for _, a := range algos {
		if !slices.Contains(hash.Algos(), a) {
			return false
		}
	}
	return true
}

// prefixLocked returns the length of the received bytes from the file's start to the first part
// that is missing or unfinished, at least l.hashed. The caller holds l.mu.
func (l *liveUpload) prefixLocked() (n drive.ByteSize) {
	for i := int(l.hashed / l.row.PartSize); ; i++ {
		part, ok := l.parts[i]
		if !ok {
			return max(n, l.hashed)
		}
		n = drive.ByteSize(i)*l.row.PartSize + part.Size
	}
}

// hashTarget returns the offset up to which f may hash. more is false if f has caught up or been
// replaced, or the upload is not active or not cached. It then also marks f as no longer busy.
func (l *liveUpload) hashTarget(f *prefixHasher) (end drive.ByteSize, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasher == f && l.loaded && l.row.State == Active {
		end = l.prefixLocked()
		more = end != l.hashed
	}
	f.busy = more
	return end, more
}

// run hashes with f until it has caught up with the received prefix, and updates l.hashed. It stops
// at the first error, which the seal will find again. It runs in a goroutine of its own, one per
// prefixHasher.
func (h *hashers) run(ctx context.Context, l *liveUpload, f *prefixHasher, row Row) {
	for {
		end, more := l.hashTarget(f)
		if !more {
			return
		}
		err := f.catchUp(ctx, h.staging, row.Ref(), end, nil)
		l.mu.Lock()
		if l.hasher == f && err == nil {
			l.hashed = end
		}
		l.mu.Unlock()
		if err != nil { // the seal hashes the rest and reports the error
			l.mu.Lock()
			f.busy = false
			l.mu.Unlock()
			return
		}
	}
}

// catchUp reads and hashes the staged bytes from the hashed offset up to end. It stores the number
// of bytes read in read, for progress, unless read is nil. After an error it may be called again
// and continues.
func (h *prefixHasher) catchUp(ctx context.Context, staging blob.Staging, ref blob.Ref, end drive.ByteSize, read *atomic.Int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	file, err := staging.OpenStaged(ctx, ref)
	if err != nil {
		return err
	}
	if read != nil {
		read.Store(h.hash.Offset())
		file = countingObject{file, read}
	}
	return errors.Join(h.hash.CatchUp(ctx, file, int64(end)), file.Close())
}

// resetHasherLocked discards the hash state, because a part that was hashed may have been dropped.
// The caller holds l.mu.
func (l *liveUpload) resetHasherLocked() { l.hasher, l.hashed = nil, 0 }

// sums returns the declared digests of the whole file other than BLAKE3. It hashes the bytes not
// covered yet, and counts them in read.
func (h *hashers) sums(ctx context.Context, l *liveUpload, row Row, read *atomic.Int64) (digest.Set, error) {
	algos := row.Digests.Aliases()
	l.mu.Lock()
	f := l.hasher
	if f == nil || !covers(f.hash, algos) {
		f = &prefixHasher{hash: digest.NewRunning(algos...)}
	}
	l.mu.Unlock()
	if err := f.catchUp(ctx, h.staging, row.Ref(), row.Size, read); err != nil {
		return nil, err
	}
	return f.hash.Sums(), nil
}

// countingObject adds the bytes read from an Object to read.
type countingObject struct {
	blob.Object
	read *atomic.Int64
}

// ReadAt reads from the Object and adds the number of bytes read to the counter read, also if the
// call fails.
func (c countingObject) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Object.ReadAt(p, off)
	c.read.Add(int64(n))
	return n, err
}
