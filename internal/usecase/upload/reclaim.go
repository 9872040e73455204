package upload

import (
	"context"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/timer"
)

// Reasons why an upload is gone.
const (
	ReasonCancelled = "cancelled" // by its owner
	ReasonAbandoned = "abandoned" // no activity for too long
	ReasonMaxAge    = "too-old"   // reached the maximum age
	ReasonLost      = "lost"      // its bytes were removed from outside
	ReasonReset     = "reset"     // by an administrator
	ReasonJoined    = "joined"    // a partial upload that Concat joined
)

// Cancel ends an upload and deletes its bytes. It is no error if the upload is gone already;
// WrongState if it is sealing or done.
func (s *Sessions) Cancel(ctx context.Context, who drive.Who, id drive.UploadID) error {
	return withStateLock(ctx, &s.table, id, func(l *liveUpload) (outcome, error) {
		row, err := s.table.loadAuthorized(ctx, who, l)
		if err != nil {
			return finished, err
		}
		return s.reclaim(context.WithoutCancel(ctx), l, row, ReasonCancelled)
	})
}

// OnAbandon handles a fired abandon timer. It reclaims the upload only if the row's last activity
// is old enough too and holdoff allows it; otherwise it returns timer.Later.
func (s *Sessions) OnAbandon(ctx context.Context, f timer.Fired) error {
	return s.onTimer(ctx, f, func(l *liveUpload, row Row) (outcome, error) {
		switch row.State {
		case Active, Parked:
			return s.expire(ctx, l, row)
		case Reclaiming:
			return s.finishReclaim(ctx, l, row)
		case Sealing, Done, Gone:
		}
		return finished, nil
	})
}

// expire reclaims an upload that is too old or was parked for too long. If its time is not over, it
// returns timer.Later with the remaining wait as the error, so that the timer fires again. The
// caller holds the state lock of l.
func (s *Sessions) expire(ctx context.Context, l *liveUpload, row Row) (outcome, error) {
	now, err := s.clocks.rowTime(ctx)
	if err != nil {
		return finished, err
	}
	due, reason := row.Created.Add(s.sched.maxAge(row)), ReasonMaxAge
	if quiet := row.Active.Add(s.sched.abandon(row)); row.State == Parked && quiet < due {
		due, reason = quiet, ReasonAbandoned
	}
	if wait := max(due.Sub(now), s.holdoff.remaining()); wait > 0 {
		return finished, timer.Later(min(wait, longestWait))
	}
	if s.opt.RetentionClock != nil && !row.isEmpty() { // retention uses a clock that cannot jump
		if wait := due.Sub(s.clocks.retentionTime()); wait > 0 {
			return finished, timer.Later(min(wait, reclaimHold))
		}
	}
	if wait, err := s.holdoff.sharedRemaining(ctx, now); err != nil {
		return finished, err
	} else if wait > 0 {
		return finished, timer.Later(wait)
	}
	if reason == ReasonAbandoned {
		if wait, err := s.unrecordedParts(ctx, l, row, now); err != nil {
			return finished, err
		} else if wait > 0 {
			return finished, timer.Later(wait)
		}
	}
	return s.reclaim(ctx, l, row, reason)
}

// unrecordedParts returns how long a parked upload must be kept because its journal has newer parts
// than its row. That happens if the journal's server lost the fence of the park and an instance
// that missed the park continued. unrecordedParts fences again, so that the next part resumes the
// upload and is charged.
func (s *Sessions) unrecordedParts(ctx context.Context, l *liveUpload, row Row, now drive.Time) (time.Duration, error) {
	if !s.caps.Shared {
		return 0, nil
	}
	staged, err := s.transitions.fence(ctx, l, row)
	last := s.lastPart(staged, now)
	if err != nil || last <= row.Active || sum(staged) == 0 {
		return 0, err
	}
	return last.Add(s.opt.Abandon).Sub(now), nil
}

// reclaim is the transition active or parked ⇒ reclaiming ⇒ gone. The caller holds the state lock.
// It may be repeated at any point.
func (s *Sessions) reclaim(ctx context.Context, l *liveUpload, row Row, reason string) (outcome, error) {
	switch row.State {
	case Gone:
		return finished, nil
	case Reclaiming:
		return s.finishReclaim(ctx, l, row)
	case Sealing, Done:
		return finished, row.ended()
	case Active, Parked:
	}
	next, out, err := s.beginReclaim(ctx, l, row, reason)
	if err != nil || out == retry {
		return out, err
	}
	return s.finishReclaim(ctx, l, next)
}

// beginReclaim ends all writers, fences the staging, and charges the held bytes until they are
// deleted.
func (s *Sessions) beginReclaim(ctx context.Context, l *liveUpload, row Row, reason string) (Row, outcome, error) {
	l.refuseParts(drive.Fail(drive.Gone, "reason", reason))
	defer l.admitParts()
	if err := l.drain(ctx, true); err != nil {
		return Row{}, finished, err
	}
	next := row
	next.State, next.Reason, next.Reserved = Reclaiming, reason, 0
	if row.State == Active {
		staged, err := s.transitions.fenceForReclaim(ctx, l, row)
		if err != nil {
			return Row{}, finished, err
		}
		next.Held = min(staged.Held, row.Reserved)
	}
	next, out, err := s.transitions.commit(ctx, l, row, next, quota.Move{Reserved: -row.Reserved, Unfinished: next.Held - row.Held})
	if err != nil || out == retry {
		return Row{}, out, err
	}
	s.sched.arm(ctx, next)
	return next, finished, nil
}

// finishReclaim deletes the bytes of an upload in state reclaiming, then makes the row gone,
// refunds Held in the same transaction, and disarms the timers. It returns retry if the row was
// changed concurrently. If a deletion fails, the row stays reclaiming and a later call continues.
func (s *Sessions) finishReclaim(ctx context.Context, l *liveUpload, row Row) (outcome, error) {
	if err := s.transitions.removeContent(ctx, row.ID); err != nil {
		return finished, err
	}
	if err := s.Staging.Remove(ctx, row.Ref()); err != nil {
		return finished, err
	}
	want := row
	want.State, want.Held, want.Challenge, want.Ended = Gone, 0, nil, s.clocks.now()
	next, out, err := s.transitions.commit(ctx, l, row, want, quota.Move{Unfinished: -row.Held})
	if err != nil || out == retry {
		return out, err
	}
	s.sched.disarm(ctx, next)
	s.merger.removeJoined(ctx, next.ID) // inputs of a final upload that failed
	return finished, nil
}
