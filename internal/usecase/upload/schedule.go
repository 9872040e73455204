package upload

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/timer"
)

const (
	maxIdle      = 10 * time.Minute // what resumes that bring nothing can double the idle time up to
	emptyAbandon = 2 * time.Minute  // a parked upload that never received anything goes after this
	slowestRate  = 128 * drive.KiB  // bytes a second: a file may take this long to arrive whatever the maximum age
	sealRetry    = 15 * time.Second // how long after a seal stopped without an outcome it is redone
	maxJitter    = 5 * time.Second  // spread of what is armed again, so that it does not all come due at once
)

// schedule says when an upload is looked at next, and tells the timers. What it says follows from
// the row alone, so whoever has written a row arms it, and a start arms all of them.
type schedule struct {
	queue     Timers
	quiet     time.Duration // Options.Idle
	abandoned time.Duration // Options.Abandon
	oldest    time.Duration // Options.MaxAge
	holdoff   *holdoff
	log       *slog.Logger
}

func parkKey(id drive.UploadID) timer.Key    { return timer.Key{Kind: timer.Park, ID: id} }
func abandonKey(id drive.UploadID) timer.Key { return timer.Key{Kind: timer.Abandon, ID: id} }

// idle returns the quiet time after which the upload is parked: doubled for each resume in a row
// that brought no part, so that waking an upload again and again for nothing costs ever fewer
// transactions.
func (s *schedule) idle(r Row) time.Duration {
	idle := s.quiet
	for range min(r.Resumes, 16) {
		if idle *= 2; idle >= maxIdle {
			return max(maxIdle, s.quiet)
		}
	}
	return idle
}

// abandon returns how long a parked upload is kept.
func (s *schedule) abandon(r Row) time.Duration {
	if r.isEmpty() {
		return min(emptyAbandon, s.abandoned)
	}
	return s.abandoned
}

// maxAge returns how old an upload may become.
func (s *schedule) maxAge(r Row) time.Duration {
	return max(s.oldest, time.Duration(max(0, r.Size)/slowestRate)*time.Second)
}

// expires returns when the upload is reclaimed if nothing more comes: not soon after a start.
func (s *schedule) expires(r Row) drive.Time {
	last := r.Created.Add(s.maxAge(r))
	switch r.State {
	case Active:
		last = min(last, r.Active.Add(s.idle(r)+s.abandoned))
	case Parked:
		last = min(last, r.Active.Add(s.abandon(r)))
	case Done, Gone: // until when it can be asked for
		return r.Ended.Add(keepEnded)
	case Sealing, Reclaiming:
	}
	return max(last, s.holdoff.until())
}

// entries returns what must be armed for a row: an open upload always has its park timer while
// active or sealing, and its abandon timer until it ends.
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

// arm arms the timers of a row that was just written. What fails the engine tries again, and should
// this process die before, the audit finds an upload without a timer; so an error is only logged.
func (s *schedule) arm(ctx context.Context, r Row) {
	ctx, cancel := afterCommit(ctx)
	defer cancel()
	if err := s.queue.Arm(ctx, s.entries(r)...); err != nil {
		s.log.WarnContext(ctx, "arm the timers of an upload", "upload", r.ID, "error", err)
	}
}

// afterCommit is for what a change owes to the timers: the row is durable, whoever has given up
// meanwhile, and a timer that was not armed because of that would be nobody's loss to notice.
func afterCommit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), armTime)
}

// armTime is how long a queue may take for one call; longer is an outage, after which it is asked
// again.
const armTime = 10 * time.Second

func (s *schedule) disarm(ctx context.Context, r Row) {
	ctx, cancel := afterCommit(ctx)
	defer cancel()
	for _, key := range []timer.Key{parkKey(r.ID), abandonKey(r.ID)} {
		if err := s.queue.Cancel(ctx, key, r.Gen); err != nil {
			s.log.WarnContext(ctx, "cancel a timer of an upload", "upload", r.ID, "timer", key, "error", err)
		}
	}
}

// doubt makes the outcome of a change known that was not answered: soon a timer of the old gen
// looks at the row; see stale.
func (s *schedule) doubt(ctx context.Context, was Row, err error) {
	if !drive.IsKind(err, drive.Unavailable) && !sqldb.MaybeWritten(err) {
		return
	}
	if err := s.queue.Arm(ctx, timer.Entry{Key: parkKey(was.ID), Account: was.Account, Gen: was.Gen, Idle: sealRetry}); err != nil {
		s.log.WarnContext(ctx, "arm a timer to look again", "upload", was.ID, "error", err)
	}
}

// armAgain is arm for rows that were read from the database: a seal is redone at once, the rest is
// spread out.
func (s *schedule) armAgain(ctx context.Context, rows []Row) error {
	var all []timer.Entry
	for _, r := range rows {
		for _, e := range s.entries(r) {
			if r.State == Sealing && e.Key.Kind == timer.Park {
				e.Idle = 0
			} else {
				e.Idle += rand.N(min(maxJitter, s.quiet/4+1))
			}
			all = append(all, e)
		}
	}
	return s.queue.Arm(ctx, all...)
}

// touch tells the park timer that bytes arrived, or that a seal goes on.
func (s *schedule) touch(id drive.UploadID) { s.queue.Touch(parkKey(id)) }
