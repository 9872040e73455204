package upload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Declared digests other than BLAKE3 must be computed over the bytes in order. A reader follows the
// parts as the file grows from its beginning, out of the page cache; what it has not reached when
// the upload is sealed is hashed then. Its state lives as long as the upload is active; after a
// restart it begins again.
type follower struct {
	mu   sync.Mutex // held while hashing
	hash *digest.Running
	busy bool // a reader runs; guarded by live.mu
}

// followers starts the readers of this process.
type followers struct {
	staging blob.Staging
	shared  bool // another instance may replace what was hashed here: nothing is
	table   *table
	work    *background
}

// start starts a reader when bytes have arrived that it can go on with.
func (s *followers) start(l *live) {
	if s.shared || !readableParts(s.staging) {
		return
	}
	f, row := l.nextFollower()
	if f == nil {
		return
	}
	held := s.table.enter(l.id)
	s.work.run(func(ctx context.Context) {
		defer s.table.leave(held)
		s.follow(ctx, l, f, row)
	})
}

// nextFollower returns the follower that has something to do and nobody who does it.
func (l *live) nextFollower() (*follower, Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	algos := l.row.Digests.Aliases()
	if len(algos) == 0 || !l.loaded || l.row.State != Active {
		return nil, Row{}
	}
	if l.follower == nil || !covers(l.follower.hash, algos) {
		l.follower, l.followed = &follower{hash: digest.NewRunning(algos...)}, 0
	}
	if l.follower.busy || l.prefixLocked() == l.followed {
		return nil, Row{}
	}
	l.follower.busy = true
	return l.follower, l.row
}

func covers(hash *digest.Running, algos []digest.Algo) bool {
	for _, a := range algos {
		if !slices.Contains(hash.Algos(), a) {
			return false
		}
	}
	return true
}

// prefixLocked returns how many bytes are there without a gap from the beginning.
func (l *live) prefixLocked() (n drive.ByteSize) {
	for i := int(l.followed / l.row.PartSize); ; i++ {
		part, ok := l.parts[i]
		if !ok {
			return max(n, l.followed)
		}
		n = drive.ByteSize(i)*l.row.PartSize + part.Size
	}
}

// ahead returns how far f can go. There is no more when it has caught up, when the upload is active
// no more, or when what was known of it has been forgotten meanwhile: then there is no row to ask,
// either.
func (l *live) ahead(f *follower) (end drive.ByteSize, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.follower == f && l.loaded && l.row.State == Active {
		end = l.prefixLocked()
		more = end != l.followed
	}
	f.busy = more
	return end, more
}

// follow hashes until it has caught up with the parts.
func (s *followers) follow(ctx context.Context, l *live, f *follower, row Row) {
	for {
		end, more := l.ahead(f)
		if !more {
			return
		}
		err := f.catchUp(ctx, s.staging, row.Ref(), end, nil)
		l.mu.Lock()
		if l.follower == f && err == nil {
			l.followed = end
		}
		l.mu.Unlock()
		if err != nil { // the seal reads the rest, and reports what is wrong
			l.mu.Lock()
			f.busy = false
			l.mu.Unlock()
			return
		}
	}
}

// catchUp hashes up to end, and counts in read how far it is.
func (f *follower) catchUp(ctx context.Context, staging blob.Staging, ref blob.Ref, end drive.ByteSize, read *atomic.Int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := staging.OpenStaged(ctx, ref)
	if err != nil {
		return err
	}
	if read != nil {
		read.Store(f.hash.Offset())
		file = counted{file, read}
	}
	return errors.Join(f.hash.CatchUp(ctx, file, int64(end)), file.Close())
}

// unfollowLocked forgets what was hashed: a part of it was taken back.
func (l *live) unfollowLocked() { l.follower, l.followed = nil, 0 }

// sums returns the declared digests of the whole file other than BLAKE3, hashing what the follower
// has not reached.
func (s *followers) sums(ctx context.Context, l *live, row Row, read *atomic.Int64) (digest.Set, error) {
	algos := row.Digests.Aliases()
	l.mu.Lock()
	f := l.follower
	if f == nil || !covers(f.hash, algos) {
		f = &follower{hash: digest.NewRunning(algos...)}
	}
	l.mu.Unlock()
	if err := f.catchUp(ctx, s.staging, row.Ref(), row.Size, read); err != nil {
		return nil, err
	}
	return f.hash.Sums(), nil
}

type counted struct {
	blob.Object
	read *atomic.Int64
}

func (c counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Object.ReadAt(p, off)
	c.read.Add(int64(n))
	return n, err
}
