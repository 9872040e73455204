package upload

import (
	"context"
	"sync"
	"sync/atomic"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// budget is what this process has promised to uploads and has not written yet, in bytes.
//
// An account may be promised all that is free. Against the others its promise counts for half of
// that at most: else who has a large quota declares the whole disk, sends nothing, and keeps
// everybody away. So there may be promised more than there is; until that is over, the account that
// was counted for half writes only what leaves the others theirs.
type budget struct {
	over atomic.Bool // there is somebody in yields

	mu       sync.Mutex
	promised drive.ByteSize
	of       map[drive.AccountID]drive.ByteSize
	yields   map[drive.AccountID]bool // who was counted for half
}

// add promises n bytes more, or fewer.
func (b *budget) add(account drive.AccountID, n drive.ByteSize) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.promised += n
	if b.of == nil {
		b.of, b.yields = map[drive.AccountID]drive.ByteSize{}, map[drive.AccountID]bool{}
	}
	if b.of[account] += n; b.of[account] == 0 {
		delete(b.of, account)
	}
}

// fits reports whether what is promised to the account can be kept where so much is free, and how
// much more of it could be.
func (b *budget) fits(account drive.AccountID, free drive.ByteSize) (ok bool, left drive.ByteSize) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.enough(free) {
		return true, free - b.promised
	}
	left = free
	for a, n := range b.of {
		if a != account {
			n = min(n, free/2)
		}
		left -= n
	}
	if left < 0 {
		return false, left
	}
	for a, n := range b.of {
		if a != account && n > free/2 {
			b.yields[a] = true
		}
	}
	b.over.Store(true)
	return true, left
}

// enough reports whether all that is promised can be kept; then nobody needs to yield.
func (b *budget) enough(free drive.ByteSize) bool {
	if b.promised > free {
		return false
	}
	clear(b.yields)
	b.over.Store(false)
	return true
}

// mayWrite reports whether the account may write n bytes of what it was promised.
func (b *budget) mayWrite(account drive.AccountID, n, free drive.ByteSize) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.enough(free) || !b.yields[account] || b.promised-b.of[account]+n <= free
}

// free returns how much of the disk may be used; ok is false where nobody knows.
func (s *Sessions) free(ctx context.Context) (free drive.ByteSize, ok bool, err error) {
	meter, ok := blob.CapacityOf(s.Store)
	if !ok {
		return 0, false, nil
	}
	free, err = meter.Free(ctx)
	return free - s.opt.MinFree, true, err
}

// reserve promises n bytes of disk, or fails with DiskFull when what is promised would eat into the
// floor. release gives back what was not used; written bytes are released as they arrive, because
// statfs sees them then.
func (s *Sessions) reserve(ctx context.Context, account drive.AccountID, n drive.ByteSize) error {
	if n <= 0 {
		return nil
	}
	s.disk.add(account, n)
	free, known, err := s.free(ctx)
	if err != nil {
		s.release(account, n)
		return err
	}
	if !known {
		return nil
	}
	if ok, left := s.disk.fits(account, free); !ok {
		s.release(account, n)
		return drive.Fail(drive.DiskFull, "needed", n, "available", max(0, left+n))
	}
	return nil
}

// reserveSome promises want bytes, or least where the disk has no room for more.
func (s *Sessions) reserveSome(ctx context.Context, account drive.AccountID, want, least drive.ByteSize) (drive.ByteSize, error) {
	err := s.reserve(ctx, account, want)
	if drive.IsKind(err, drive.DiskFull) && least < want {
		return least, s.reserve(ctx, account, least)
	}
	return want, err
}

func (s *Sessions) release(account drive.AccountID, n drive.ByteSize) { s.disk.add(account, -n) }

// leavesOthers fails with DiskFull when the account, which was promised more than is left beside
// others, would write what is theirs.
func (s *Sessions) leavesOthers(ctx context.Context, account drive.AccountID, n drive.ByteSize) error {
	if !s.disk.over.Load() {
		return nil
	}
	free, known, err := s.free(ctx)
	if err != nil || !known || s.disk.mayWrite(account, n, free) {
		return err
	}
	return drive.Fail(drive.DiskFull, "needed", n, "available", 0)
}

// holdRoom makes the room of a seal as much as there is to copy: it may have none, after a start.
func (s *Sessions) holdRoom(ctx context.Context, run *sealing, n drive.ByteSize) error {
	has := drive.ByteSize(run.room.Load())
	if has >= n {
		s.releaseRoom(run, has-n)
		return nil
	}
	err := s.reserve(ctx, run.row.Account, n-has)
	if err == nil {
		run.room.Add(int64(n - has))
	}
	return err
}

// releaseRoom gives back some of the room of a seal.
func (s *Sessions) releaseRoom(run *sealing, n drive.ByteSize) {
	run.room.Add(-int64(n))
	s.release(run.row.Account, n)
}
