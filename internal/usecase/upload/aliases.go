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

// Declared digests other than BLAKE3 must be computed over the bytes in order. A reader follows the parts as the file grows
// from its beginning, out of the page cache; what it has not reached when the upload is sealed is hashed then. Its state lives
// as long as the upload is active; after a restart it begins again.
type follower struct {
	mu   sync.Mutex // held while hashing
	hash *digest.Running
	busy bool // a reader runs; guarded by live.mu
}

// startFollowing starts a reader when bytes have arrived that it can go on with.
func (s *Sessions) startFollowing(l *live) {
	if s.caps.Shared || !s.readableParts() { // another instance may replace what was hashed here
		return
	}
	f, row := l.nextFollower()
	if f == nil {
		return
	}
	held := s.table.enter(l.id)
	s.work.Go(func() {
		defer s.table.leave(held)
		s.follow(l, f, row)
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

// ahead returns how far f can go. There is no more when it has caught up, when the upload is active no more, or when what was known
// of it has been forgotten meanwhile: then there is no row to ask, either.
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
func (s *Sessions) follow(l *live, f *follower, row Row) {
	for {
		end, more := l.ahead(f)
		if !more {
			return
		}
		err := s.catchUp(s.stop, row.Ref(), f, end, nil)
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

func (s *Sessions) catchUp(ctx context.Context, ref blob.Ref, f *follower, end drive.ByteSize, read *atomic.Int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := s.Staging.OpenStaged(ctx, ref)
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

// aliases returns the digests of the whole file, hashing what the follower has not reached.
func (s *Sessions) aliases(ctx context.Context, l *live, row Row, algos []digest.Algo, run *sealing) (digest.Set, error) {
	l.mu.Lock()
	f := l.follower
	if f == nil || !covers(f.hash, algos) {
		f = &follower{hash: digest.NewRunning(algos...)}
	}
	l.mu.Unlock()
	if err := s.catchUp(ctx, row.Ref(), f, row.Size, &run.read); err != nil {
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
