package upload

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/timer"
)

const (
	maxIdle      = 10 * time.Minute // upper bound of the idle time doubled by fruitless resumes
	emptyAbandon = 2 * time.Minute  // a parked upload without any bytes is reclaimed after this
	slowestRate  = 128 * drive.KiB  // bytes per second: a file may take this long to arrive, whatever the maximum age
	sealRetry    = 15 * time.Second // a seal that stopped undecided is redone after this
	maxJitter    = 5 * time.Second  // spread of rearmed timers, so that they do not all fire at once
)

// schedule computes and arms the timers of uploads. They follow from the row alone, so each writer
// of a row arms them, and a start arms all of them.
type schedule struct {
	queue        Timers
	idleAfter    time.Duration // Options.Idle
	abandonAfter time.Duration // Options.Abandon
	maxAgeLimit  time.Duration // Options.MaxAge
	holdoff      *holdoff
	log          *slog.Logger
}

// parkKey returns the key of an upload's park timer.
func parkKey(id drive.UploadID) timer.Key { return timer.Key{Kind: timer.Park, ID: id} }

// abandonKey returns the key of the timer that reclaims upload id after it was idle or open for too
// long.
func abandonKey(id drive.UploadID) timer.Key { return timer.Key{Kind: timer.Abandon, ID: id} }

// idle returns the quiet time after which the upload is parked. It doubles with each consecutive
// resume without a part, so that fruitless resumes cost ever fewer transactions.
func (s *schedule) idle(r Row) time.Duration {
	idle := s.idleAfter
	for range min(r.Resumes, 16) {
		if idle *= 2; idle >= maxIdle {
			return max(maxIdle, s.idleAfter)
		}
	}
	return idle
}

// abandon returns how long a parked upload is kept without activity; an empty one only
// emptyAbandon.
func (s *schedule) abandon(r Row) time.Duration {
	if r.isEmpty() {
		return min(emptyAbandon, s.abandonAfter)
	}
	return s.abandonAfter
}

// maxAge returns the age at which an open upload is reclaimed; large files get longer, by
// slowestRate.
func (s *schedule) maxAge(r Row) time.Duration {
	return max(s.maxAgeLimit, time.Duration(max(0, r.Size)/slowestRate)*time.Second)
}

// expiresAt returns when the upload is reclaimed without further activity, not before holdoff ends.
// For an ended upload it returns when the row is purged.
func (s *schedule) expiresAt(r Row) drive.Time {
	last := r.Created.Add(s.maxAge(r))
	switch r.State {
	case Active:
		last = min(last, r.Active.Add(s.idle(r)+s.abandonAfter))
	case Parked:
		last = min(last, r.Active.Add(s.abandon(r)))
	case Done, Gone: // until it is purged
		return r.Ended.Add(keepEnded)
	case Sealing, Reclaiming:
	}
	return max(last, s.holdoff.endsAt())
}

// entries returns the timers of a row: a park timer while active or sealing, and an abandon timer
// until the upload has ended.
func (s *schedule) entries(r Row) []timer.Entry {
	park := timer.Entry{Key: parkKey(r.ID), Account: r.Account, Gen: r.Gen}
	abandon := timer.Entry{Key: abandonKey(r.ID), Account: r.Account, Gen: r.Gen, Idle: s.maxAge(r), Last: r.Created}
	switch r.State {
	case Active:
		park.Idle = s.idle(r)
		return []timer.Entry{park, abandon}
	case Sealing:
		park.Idle = sealRetry
		return []timer.Entry{park, abandon}
	case Parked:
		abandon.Idle, abandon.Max, abandon.First, abandon.Last = s.abandon(r), s.maxAge(r), r.Created, r.Active
		return []timer.Entry{abandon}
	case Reclaiming:
		return []timer.Entry{{Key: abandonKey(r.ID), Account: r.Account, Gen: r.Gen, Idle: 0}}
	case Done, Gone:
	}
	return nil
}

// arm arms the timers of a row that was just written; an error is only logged. The engine retries,
// and if the process dies first, the audit finds the upload without a timer.
func (s *schedule) arm(ctx context.Context, r Row) {
	ctx, cancel := afterCommit(ctx)
	defer cancel()
	if err := s.queue.Arm(ctx, s.entries(r)...); err != nil {
		s.log.WarnContext(ctx, "timers of an upload could not be armed; the audit arms them later", "upload", r.ID, "error", err)
	}
}

// afterCommit returns a context for timer calls after a commit. It ignores the cancellation of the
// request, because nobody would notice a timer that was not armed.
func afterCommit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), armTime)
}

// armTime bounds one call to the timer queue. A longer call is an outage, after which the timers
// are armed again.
const armTime = 10 * time.Second

// disarm cancels the timers of an ended upload, even if ctx has ended. An error is only logged,
// because a timer of an ended upload has no effect.
func (s *schedule) disarm(ctx context.Context, r Row) {
	ctx, cancel := afterCommit(ctx)
	defer cancel()
	for _, key := range []timer.Key{parkKey(r.ID), abandonKey(r.ID)} {
		if err := s.queue.Cancel(ctx, key, r.Gen); err != nil {
			s.log.WarnContext(ctx, "timer of an upload could not be cancelled; it fires without effect", "upload", r.ID, "timer", key, "error", err)
		}
	}
}

// armRecheck arms a timer of the old gen after a change of unknown outcome (Unavailable or in
// doubt), so that handleStaleTimer checks the row soon. It ignores other errors.
func (s *schedule) armRecheck(ctx context.Context, was Row, err error) {
	if !drive.IsKind(err, drive.Unavailable) && !sqldb.MaybeWritten(err) {
		return
	}
	if err := s.queue.Arm(ctx, timer.Entry{Key: parkKey(was.ID), Account: was.Account, Gen: was.Gen, Idle: sealRetry}); err != nil {
		s.log.WarnContext(ctx, "timer to check an upload after an unknown outcome could not be armed; the next start checks it", "upload", was.ID, "error", err)
	}
}

// rearm arms the timers of rows read from the database. Seals are due at once; the other timers are
// spread by a jitter.
func (s *schedule) rearm(ctx context.Context, rows []Row) error {
	var all []timer.Entry
	for _, r := range rows {
		for _, e := range s.entries(r) {
			if r.State == Sealing && e.Key.Kind == timer.Park {
				e.Idle = 0
			} else {
				e.Idle += rand.N(min(maxJitter, s.idleAfter/4+1))
			}
			all = append(all, e)
		}
	}
	return s.queue.Arm(ctx, all...)
}

// touch tells the park timer that bytes arrived or that a seal progresses.
func (s *schedule) touch(id drive.UploadID) { s.queue.Touch(parkKey(id)) }
