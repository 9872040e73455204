package export

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/engine/instance/lease"
)

// workers do what is due on this machine.
type workers struct {
	*ground
	calendar  *calendar
	queue     *queue
	collector *collector
	releases  *releases
	courier   *courier

	slots chan struct{} // what this process works on
}

// Wake makes a worker of this process look for work now.
func (g *ground) Wake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run works on batches, makes those of schedules and gives back what has ended, until ctx is done.
// It then returns once every worker has stopped; what they had is free for others at once.
func (e *Exports) Run(ctx context.Context) error {
	return e.workers.run(ctx)
}

func (w *workers) run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	var outage telemetry.Outage
	for ctx.Err() == nil {
		found, err := w.runOnce(ctx, &working)
		outage.Note(ctx, w.log, "the look for batches failed and will be repeated", err)
		if found {
			continue
		}
		select { // pollers that were started together do not stay together
		case <-time.After(pollEvery/2 + rand.N(pollEvery)):
		case <-w.wake:
		case <-ctx.Done():
		}
	}
	return nil
}

// Drain works on all that is due, one after the other, and returns when nothing is left.
func (e *Exports) Drain(ctx context.Context) error {
	return e.workers.drain(ctx)
}

func (w *workers) drain(ctx context.Context) error {
	for {
		if err := errors.Join(w.calendar.run(ctx), w.releases.ended(ctx)); err != nil {
			return err
		}
		do, err := w.take(ctx)
		if err != nil || do == nil {
			return err
		}
		do(ctx)
	}
}

// runOnce takes one piece of work and begins it, if there is one and there is room for it here.
func (w *workers) runOnce(ctx context.Context, working *sync.WaitGroup) (found bool, err error) {
	scheduleErr := w.calendar.run(ctx)
	endErr := errors.Join(w.releases.tellEnding(ctx), w.releases.tellLate(ctx), w.releases.ended(ctx))
	select {
	case w.slots <- struct{}{}:
	default:
		return false, errors.Join(scheduleErr, endErr, w.queue.askForTurn(ctx))
	}
	do, err := w.take(ctx)
	if do == nil {
		idle := len(w.slots) == 1
		<-w.slots
		if err == nil {
			err = w.queue.askForTurn(ctx) // others of this machine may have all of its places
		}
		if err == nil && idle {
			err = w.queue.askForSlow(ctx)
		}
		return false, errors.Join(scheduleErr, endErr, err)
	}
	working.Go(func() {
		defer w.Wake()
		defer func() { <-w.slots }()
		do(ctx)
	})
	return true, errors.Join(scheduleErr, endErr)
}

// take claims a batch or a job; nil: there is none.
func (w *workers) take(ctx context.Context) (func(context.Context), error) {
	b, err := w.queue.claim(ctx)
	if err != nil {
		return nil, err
	}
	if b != nil {
		return func(ctx context.Context) { w.work(ctx, b) }, nil
	}
	j, err := w.courier.claim(ctx)
	if err != nil || j == nil {
		return nil, err
	}
	return func(ctx context.Context) { w.courier.work(ctx, j) }, nil
}

// errYield is why a worker stops that was asked to.
var errYield = errors.New("asked to give the batch back")

// work collects and seals a batch, and says in its row how that ended.
func (w *workers) work(ctx context.Context, b *batch) {
	log := w.log.With("export", b.ID, "epoch", b.Epoch)
	log.InfoContext(ctx, "working on a batch", "collected", b.Collected, "failed", b.Failed, "total", b.Total)
	var asked atomic.Bool
	w.queue.asked.Store(b.ID, func() { asked.Store(true) })
	defer w.queue.asked.Delete(b.ID)
	err := lease.Hold(ctx, func(ctx context.Context) (bool, error) { return w.queue.beat(ctx, b) }, func(ctx context.Context, yield func() bool) error {
		return attempt(b.Tries, func() error { return w.collector.collect(ctx, b, func() bool { return asked.Load() || yield() }) })
	})
	// What follows is worth a moment also when the process stops.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	switch aside, isAside := errors.AsType[*leftError](err); {
	case err == nil:
		log.InfoContext(ctx, "a batch is sealed")
	case errors.Is(err, errFenced) || errors.Is(err, lease.ErrLost):
		w.counters.Lost.Add(1)
		log.WarnContext(ctx, "a batch was lost", "error", err)
		return
	case errors.Is(err, errFull):
		log.WarnContext(ctx, "a batch waits for room on the disk")
		err = w.queue.postpone(after, b, reasonFull, waitForRoom)
	case errors.Is(err, errInactive) || errors.Is(err, errYield) && w.stopFor(after, b.User):
		log.WarnContext(ctx, "a batch waits: its user is disabled")
		err = w.queue.postpone(after, b, reasonInactive, waitForUser)
	case errors.Is(err, errYield):
		log.InfoContext(ctx, "a batch is given back")
		err = w.queue.yielded(after, b)
	case isAside:
		log.WarnContext(ctx, "a batch is to be tried again", "left", aside.entries, "reason", aside.reason)
		err = w.queue.setBack(after, b, aside)
	case ctx.Err() != nil:
		err = w.queue.giveBack(after, b, 0)
	case drive.IsKind(err, drive.Unavailable):
		log.WarnContext(ctx, "a batch waits: what it needs is away", "error", err)
		err = w.queue.postpone(after, b, reasonAway, waitForAway)
	default:
		log.ErrorContext(ctx, "a batch was aborted", "error", err)
		err = w.queue.abort(after, b, drive.KindOf(err).String())
	}
	if err != nil && !errors.Is(err, errFenced) {
		log.WarnContext(ctx, "how a batch ended could not be written; its lease will end", "error", err)
	}
}

// mostTries is how many tries work may have whose process ended without a word, again and again,
// before anything came of it.
const mostTries = 2 * maxTries

// attempt does the work safely, unless it has had too many tries.
func attempt(tries int64, work func() error) error {
	if tries > mostTries {
		return fmt.Errorf("the process ended in each of %d tries", tries)
	}
	return safely(work)
}

// safely does a step of the work. A panic in it is the error of the step: a process that it ended
// would begin the same work again, and end again.
func safely(step func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the work on an export: %v\n%s", p, debug.Stack())
		}
	}()
	return step()
}

// yielded gives back a batch that was asked for: to another machine, or until the next turn of its
// account. A turn in which nothing arrived counts as a try; in the last one slow documents fail.
func (q *queue) yielded(ctx context.Context, b *batch) error {
	now, err := q.find(ctx, q.opt.DB, "WHERE id = ?", b.ID)
	if err != nil {
		return err
	}
	at, err := q.now(ctx)
	if err != nil {
		return err
	}
	if now.Handovers == b.Handovers {
		return q.giveBackAfter(ctx, b, 0, b.fruitless(at))
	}
	q.counters.HandedOver.Add(1)
	return q.giveBack(ctx, b, awayFor)
}

// fruitless reports whether a batch had a whole turn and nothing became of any entry. One that had
// to make room at once, being the second of its account, had none.
func (b *batch) fruitless(now drive.Time) bool {
	return b.barren() && now.Sub(b.ClaimedAt) >= slice
}

// barren reports whether nothing has become of any entry since the batch was taken.
func (b *batch) barren() bool { return b.Collected+b.Failed == b.ClaimedDone }

func errOr(err, other error) error {
	if err == nil {
		return other
	}
	return err
}
