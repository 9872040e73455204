package upload

import (
	"context"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/timer"
)

// OnPark handles a fired park timer: the upload may have gone quiet. It is idempotent by (key,
// gen).
func (s *Sessions) OnPark(ctx context.Context, f timer.Fired) error {
	return s.onTimer(ctx, f, func(l *live, row Row) (outcome, error) {
		switch row.State {
		case Active:
			return s.park(ctx, l, row)
		case Sealing:
			s.sealer.startSeal(l, row)
			return settled, timer.Later(sealRetry) // if it ends without an outcome it is redone; if with one, this timer is gone
		case Parked:
			if row.Reason != "" { // a final that waited in an older version, whose abandon timer was set for longer
				s.sched.arm(ctx, row)
			}
		case Reclaiming, Done, Gone:
		}
		return settled, nil
	})
}

// onTimer runs act on the row that a timer was armed for. A timer of another gen changes nothing.
func (s *Sessions) onTimer(ctx context.Context, f timer.Fired, act func(l *live, row Row) (outcome, error)) error {
	return inTurn(ctx, &s.table, drive.UploadID(f.Key.ID), func(l *live) (outcome, error) {
		row, err := s.table.load(ctx, l)
		switch {
		case drive.IsKind(err, drive.NotFound):
			return settled, nil
		case err != nil:
			return settled, err
		case row.Gen != f.Gen:
			s.stale(ctx, row, f)
			return settled, nil
		}
		return act(l, row)
	})
}

// stale handles a timer of an older gen. It changes nothing; but it fires only when the change that
// made it stale was not seen through, because the reply was lost or the process stopped: then the
// row lacks its timers, or the staging was not removed.
func (s *Sessions) stale(ctx context.Context, row Row, f timer.Fired) {
	switch {
	case row.Gen < f.Gen:
	case row.State == Done, row.State == Gone:
		s.arrows.clear(ctx, row)
	default:
		s.sched.arm(ctx, row)
	}
}

// park is active ⇒ parked. The caller holds the turn.
func (s *Sessions) park(ctx context.Context, l *live, row Row) (outcome, error) {
	if wait, busy, err := s.lively(ctx, l, row); err != nil {
		return settled, err
	} else if busy {
		return settled, timer.Later(wait)
	}
	if l.pause() { // a part began after lively looked
		l.open()
		return settled, timer.Later(s.sched.idle(row))
	}
	defer l.open()
	staged, err := s.arrows.fence(ctx, l, row)
	if err != nil {
		return settled, err
	}
	now, err := s.clocks.ofRows(ctx)
	if err != nil {
		return settled, err
	}
	next := row
	next.State = Parked
	next.Reserved, next.Held = 0, min(staged.Held, row.Reserved)
	next.Received = sum(staged)
	next.Active = s.lastActive(l, row, staged, now) // the journal knows what a process that died did not write down
	if staged.Last == 0 && sum(staged) > 0 {        // nor does the journal: it was lost
		next.Active = now
	}
	if s.lastPart(staged, now) > row.Active {
		next.Resumes = 0 // it has come here or elsewhere since the resume
	}
	next, out, err := s.arrows.commit(ctx, l, row, next, quota.Move{Reserved: -row.Reserved, Unfinished: next.Held})
	if err != nil || out == again {
		return out, err
	}
	s.sched.arm(ctx, next)
	return settled, nil
}

// lively reports whether the upload is active still, and when to look again. What other instances
// do is asked of the journal.
func (s *Sessions) lively(ctx context.Context, l *live, row Row) (wait time.Duration, yes bool, err error) {
	now, err := s.clocks.ofRows(ctx)
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
	case quiet < -maxAhead: // noted by a clock that was ahead: the timer, which counts what has really passed, knows better
	case quiet < idle:
		return idle - max(quiet, 0), true, nil
	}
	return 0, false, nil
}

func sum(staged blob.Staged) (n drive.ByteSize) {
	for _, p := range staged.Parts {
		n += p.Size
	}
	for _, p := range staged.Tails {
		n += p.Size
	}
	return n
}
