package upload

import (
	"context"
	"sync/atomic"

	"smartdrive/internal/blob"
	"smartdrive/internal/drive"
)

// budget is what this process has promised to uploads and has not written yet, in bytes.
type budget struct{ promised atomic.Int64 }

// reserve promises n bytes of disk, or fails with DiskFull when what is promised in all would eat into the floor. release
// gives back what was not used; written bytes are released as they arrive, because statfs sees them then.
func (s *Sessions) reserve(ctx context.Context, n drive.ByteSize) error {
	if n <= 0 {
		return nil
	}
	promised := drive.ByteSize(s.disk.promised.Add(int64(n)))
	meter, ok := blob.CapacityOf(s.Store)
	if !ok {
		return nil
	}
	free, err := meter.Free(ctx)
	if err != nil {
		s.release(n)
		return err
	}
	if promised > free-s.opt.MinFree {
		s.release(n)
		return drive.Fail(drive.DiskFull, "needed", n, "available", max(0, free-s.opt.MinFree-(promised-n)))
	}
	return nil
}

// reserveSome promises want bytes, or least where the disk has no room for more.
func (s *Sessions) reserveSome(ctx context.Context, want, least drive.ByteSize) (drive.ByteSize, error) {
	err := s.reserve(ctx, want)
	if drive.IsKind(err, drive.DiskFull) && least < want {
		return least, s.reserve(ctx, least)
	}
	return want, err
}

func (s *Sessions) release(n drive.ByteSize) { s.disk.promised.Add(-int64(n)) }

// holdRoom makes the room of a seal as much as there is to copy: it may have none, after a start.
func (s *Sessions) holdRoom(ctx context.Context, run *sealing, n drive.ByteSize) error {
	has := drive.ByteSize(run.room.Load())
	if has >= n {
		s.releaseRoom(run, has-n)
		return nil
	}
	err := s.reserve(ctx, n-has)
	if err == nil {
		run.room.Add(int64(n - has))
	}
	return err
}

// releaseRoom gives back some of the room of a seal.
func (s *Sessions) releaseRoom(run *sealing, n drive.ByteSize) {
	run.room.Add(-int64(n))
	s.release(n)
}
