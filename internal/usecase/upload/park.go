package upload

import (
	"context"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/timer"
)

// OnPark handles a fired park timer: it parks a quiet active upload, or restarts the seal of a
// sealing one. It returns timer.Later if the timer must fire again. It is idempotent per (key,
// gen).
func (s *Sessions) OnPark(ctx context.Context, f timer.Fired) error {
	return s.onTimer(ctx, f, func(l *liveUpload, row Row) (outcome, error) {
		switch row.State {
		case Active:
			return s.park(ctx, l, row)
		case Sealing:
			s.sealer.startSeal(l, row)
			return finished, timer.Later(sealRetry) // if the seal fails undecided it is redone; if it ends, this timer is cancelled
		case Parked:
			if row.Reason != "" { // a final upload parked by an older version, whose abandon timer was armed for longer
				s.sched.arm(ctx, row)
			}
		case Reclaiming, Done, Gone:
		}
		return finished, nil
	})
}

// onTimer runs act on the row that a timer was armed for, under the state lock. It ignores timers
// of another gen, except for handleStaleTimer.
func (s *Sessions) onTimer(ctx context.Context, f timer.Fired, act func(l *liveUpload, row Row) (outcome, error)) error {
	return withStateLock(ctx, &s.table, drive.UploadID(f.Key.ID), func(l *liveUpload) (outcome, error) {
		row, err := s.table.load(ctx, l)
		switch {
		case drive.IsKind(err, drive.NotFound):
			return finished, nil
		case err != nil:
			return finished, err
		case row.Gen != f.Gen:
			s.handleStaleTimer(ctx, row, f)
			return finished, nil
		}
		return act(l, row)
	})
}

// handleStaleTimer handles a timer of an older gen. Such a timer fires only if the change that made
// it stale was not completed, because a reply was lost or the process stopped. It arms the row's
// timers or removes the staging, and leaves the row unchanged.
func (s *Sessions) handleStaleTimer(ctx context.Context, row Row, f timer.Fired) {
	switch {
	case row.Gen < f.Gen:
	case row.State == Done, row.State == Gone:
		s.transitions.cleanUp(ctx, row)
	default:
		s.sched.arm(ctx, row)
	}
}

// park is the transition active ⇒ parked. The caller holds the state lock. It returns timer.Later
// if the upload is busy.
func (s *Sessions) park(ctx context.Context, l *liveUpload, row Row) (outcome, error) {
	if wait, busy, err := s.isBusy(ctx, l, row); err != nil {
		return finished, err
	} else if busy {
		return finished, timer.Later(wait)
	}
	if l.pauseParts() { // a part began after the check
		l.admitParts()
		return finished, timer.Later(s.sched.idle(row))
	}
	defer l.admitParts()
	staged, err := s.transitions.fence(ctx, l, row)
	if err != nil {
		return finished, err
	}
	now, err := s.clocks.rowTime(ctx)
	if err != nil {
		return finished, err
	}
	next := row
	next.State = Parked
	next.Reserved, next.Held = 0, min(staged.Held, row.Reserved)
	next.Received = sum(staged)
	next.Active = s.lastActive(l, row, staged, now) // the journal knows what a dead process did not record
	if staged.Last == 0 && sum(staged) > 0 {        // the journal was lost
		next.Active = now
	}
	if s.lastPart(staged, now) > row.Active {
		next.Resumes = 0 // a part arrived since the resume, at any instance
	}
	next, out, err := s.transitions.commit(ctx, l, row, next, quota.Move{Reserved: -row.Reserved, Unfinished: next.Held})
	if err != nil || out == retry {
		return out, err
	}
	s.sched.arm(ctx, next)
	return finished, nil
}

// isBusy reports whether the upload received bytes within its idle time or is being written. wait
// is then the time after which to check again. With a shared staging it also asks the journal for
// the activity of other instances.
func (s *Sessions) isBusy(ctx context.Context, l *liveUpload, row Row) (wait time.Duration, yes bool, err error) {
	now, err := s.clocks.rowTime(ctx)
	if err != nil {
		return 0, false, err
	}
	var staged blob.Staged
	if s.caps.Shared {
		if staged, err = s.Staging.Load(ctx, row.Ref()); err != nil && !drive.IsKind(err, drive.NotFound) {
			return 0, false, err
		}
	}
	l.mu.Lock()
	writers := len(l.writers) + staged.Writing
	l.mu.Unlock()
	quiet := now.Sub(s.lastSeen(l, row, staged, now))
	switch idle := s.sched.idle(row); {
	case writers > 0:
		return idle, true, nil
	case quiet < -maxAhead: // recorded by a clock that ran ahead: trust the timer, which measures elapsed time
	case quiet < idle:
		return idle - max(quiet, 0), true, nil
	}
	return 0, false, nil
}

// sum returns the number of staged bytes, tails included.
func sum(staged blob.Staged) (n drive.ByteSize) {
	for _, p := range staged.Parts {
		n += p.Size
	}
	for _, p := range staged.Tails {
		n += p.Size
	}
	return n
}
