package upload

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/blob"
)

// makeReady prepares an upload for parts: it loads the row, resumes a parked upload, renews a gen
// that the staging refuses, and verifies suspect parts. It fails with WrongState or Gone if the
// upload accepts no parts.
func (s *Sessions) makeReady(ctx context.Context, who drive.Who, id drive.UploadID) error {
	return withStateLock(ctx, &s.table, id, func(l *liveUpload) (outcome, error) {
		row, err := s.table.loadAuthorized(ctx, who, l)
		if err != nil {
			return finished, err
		}
		switch row.State {
		case Active:
			return s.refresh(ctx, l, row)
		case Parked:
			return s.resume(ctx, l, row)
		case Sealing, Done, Reclaiming, Gone:
		}
		return finished, row.ended()
	})
}

// ended returns the error for a request that needs an open upload: Gone {reason} or WrongState
// {state}.
func (r Row) ended() error {
	if r.State == Reclaiming || r.State == Gone {
		return drive.Fail(drive.Gone, "reason", r.Reason)
	}
	return drive.Fail(drive.WrongState, "state", r.State.Public())
}

// refresh repairs an active upload. If the staging refuses its gen, it writes a new one; if a power
// loss may have taken parts, it verifies them.
func (s *Sessions) refresh(ctx context.Context, l *liveUpload, row Row) (outcome, error) {
	l.mu.Lock()
	refused, suspect := l.fenced >= row.Gen, l.suspect
	l.mu.Unlock()
	if refused {
		if err := s.transitions.reopen(ctx, row); err != nil {
			return finished, err
		}
		next, out, err := s.transitions.commit(ctx, l, row, row, quota.Move{})
		if err != nil || out == retry {
			return out, err
		}
		s.sched.arm(ctx, next)
		row = next
	}
	if !suspect {
		return finished, nil
	}
	return finished, s.table.readStaged(l, row, func() (blob.Staged, error) { return s.Staging.Verify(ctx, row.Ref(), row.Gen) })
}

// resume is the transition parked ⇒ active. It reserves the declared size again in one transaction.
// Errors: Quota, DiskFull, Rate (too many resumes), Gone (too old, bytes lost).
func (s *Sessions) resume(ctx context.Context, l *liveUpload, row Row) (outcome, error) {
	if err := s.resumes.allow(row.Account, s.opt.Now()); err != nil {
		return finished, err
	}
	now, err := s.clocks.rowTime(ctx)
	if err != nil {
		return finished, err
	}
	if row.Created.Add(s.sched.maxAge(row)) <= now {
		return finished, drive.Fail(drive.Gone, "reason", ReasonMaxAge)
	}
	staged, err := s.Staging.Load(ctx, row.Ref())
	if drive.IsKind(err, drive.NotFound) { // bytes removed from outside: the abandon timer ends the upload
		return s.transitions.checkMissing(ctx, l, row, err)
	}
	if err != nil {
		return finished, err
	}
	next := row
	next.State, next.Reason, next.Held, next.Active = Active, "", 0, now // older versions set a reason on parked rows
	next.Reserved = row.Size
	if row.Size == blob.UnknownSize {
		next.Reserved = row.Held
	}
	next.Resumes = row.Resumes + 1 // reset by the next accepted part
	promise := max(0, next.Reserved-sum(staged))
	if err := s.disk.Reserve(ctx, row.Account, promise); err != nil {
		return finished, err
	}
	next, out, err := s.transitions.commit(ctx, l, row, next, quota.Move{Reserved: next.Reserved, Unfinished: -row.Held})
	s.disk.Release(row.Account, promise) // from here on the liveUpload's own promise counts
	if err != nil || out == retry {
		return out, err
	}
	l.touch(s.clocks.now())
	l.setStaged(next, staged)
	s.sched.arm(ctx, next)
	if staged.Suspect {
		return s.refresh(ctx, l, next)
	}
	return finished, nil
}
