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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/instance/lease"
)

// workerPool runs the due work of this machine.
type workerPool struct {
	*core
	calendar  *calendar
	queue     *queue
	collector *collector
	releaser  *releaser
	jobs      *jobRunner

	slots chan struct{} // one element per running batch or job
}

// Wake makes this process poll for work now, or right after what it is doing. It never blocks and
// does not wait for the work.
func (c *core) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run works on batches and jobs, runs schedules and releases ended batches, in the background until
// ctx ends. It returns nil after all workers have stopped; other instances can claim their work at
// once. Errors are logged and the work is retried.
func (e *Exports) Run(ctx context.Context) error {
	return e.workers.run(ctx)
}

// run polls for due work and runs it in goroutines until ctx ends, waits for them, and returns nil.
// A failed poll is logged and repeated. Wake shortens the pause between polls.
func (p *workerPool) run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	var outage telemetry.Outage
	for ctx.Err() == nil {
		found, err := p.runOnce(ctx, &working)
		outage.Record(ctx, p.log, "polling for batches failed; it will be repeated", err)
		if found {
			continue
		}
		select { // the jitter spreads pollers that started together
		case <-time.After(pollEvery/2 + rand.N(pollEvery)):
		case <-p.wake:
		case <-ctx.Done():
		}
	}
	return nil
}

// Drain does all due work sequentially, in the calling goroutine, and returns nil when none is
// left. It returns an error of the schedules, the releases or a claim; a batch that fails is no
// error. Tests use it instead of Run.
func (e *Exports) Drain(ctx context.Context) error {
	return e.workers.drain(ctx)
}

// drain runs the schedules, releases ended batches, claims and does one piece of work, and repeats
// this until no work is due or one of the first steps fails.
func (p *workerPool) drain(ctx context.Context) error {
	for {
		if err := errors.Join(p.calendar.run(ctx), p.releaser.releaseEnded(ctx)); err != nil {
			return err
		}
		do, err := p.claim(ctx)
		if err != nil || do == nil {
			return err
		}
		do(ctx)
	}
}

// runOnce starts one piece of work in a goroutine of working, if there is any and a slot is free.
// found reports whether it did.
func (p *workerPool) runOnce(ctx context.Context, working *sync.WaitGroup) (found bool, err error) {
	scheduleErr := p.calendar.run(ctx)
	endErr := errors.Join(p.releaser.publishEnding(ctx), p.releaser.publishLate(ctx), p.releaser.releaseEnded(ctx))
	select {
	case p.slots <- struct{}{}:
	default:
		return false, errors.Join(scheduleErr, endErr, p.queue.requestTurn(ctx))
	}
	do, err := p.claim(ctx)
	if do == nil {
		idle := len(p.slots) == 1
		<-p.slots
		if err == nil {
			err = p.queue.requestTurn(ctx) // other processes of this machine may use all its slots
		}
		if err == nil && idle {
			err = p.queue.requestSlow(ctx)
		}
		return false, errors.Join(scheduleErr, endErr, err)
	}
	working.Go(func() {
		defer p.Wake()
		defer func() { <-p.slots }()
		do(ctx)
	})
	return true, errors.Join(scheduleErr, endErr)
}

// claim claims a batch or job and returns the function that works on it; nil: there is none.
func (p *workerPool) claim(ctx context.Context) (func(context.Context), error) {
	b, err := p.queue.claim(ctx)
	if err != nil {
		return nil, err
	}
	if b != nil {
		return func(ctx context.Context) { p.work(ctx, b) }, nil
	}
	j, err := p.jobs.claim(ctx)
	if err != nil || j == nil {
		return nil, err
	}
	return func(ctx context.Context) { p.jobs.work(ctx, j) }, nil
}

// errYield stops a worker that was asked to yield its batch.
var errYield = errors.New("asked to give the batch back")

// work collects and seals a claimed batch under its lease, and stores the outcome in its row:
// sealed, pending again, aborted or failed. If the batch is lost to another worker, it stores
// nothing.
func (p *workerPool) work(ctx context.Context, b *batch) {
	log := p.log.With("export", b.ID, "epoch", b.Epoch)
	log.InfoContext(ctx, "working on a batch", "collected", b.Collected, "failed", b.Failed, "total", b.Total)
	var asked atomic.Bool
	p.queue.yieldFuncs.Store(b.ID, func() { asked.Store(true) })
	defer p.queue.yieldFuncs.Delete(b.ID)
	err := lease.Run(ctx, func(ctx context.Context) (bool, error) { return p.queue.renewLease(ctx, b) }, func(ctx context.Context, yield func() bool) error {
		return attempt(b.Tries, func() error { return p.collector.collect(ctx, b, func() bool { return asked.Load() || yield() }) })
	})
	// Store the outcome even if the process is stopping.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	switch aside, isAside := errors.AsType[*deferredError](err); {
	case err == nil:
		log.InfoContext(ctx, "batch sealed")
	case errors.Is(err, errFenced) || errors.Is(err, lease.ErrLost):
		p.counters.Lost.Add(1)
		log.WarnContext(ctx, "batch lost to another worker; it stops here", "error", err)
		return
	case errors.Is(err, errDiskFull):
		log.WarnContext(ctx, "batch postponed: less disk space than --export-min-free is left")
		err = p.queue.postpone(after, b, reasonFull, waitForSpace)
	case errors.Is(err, errInactive) || errors.Is(err, errYield) && p.userInactive(after, b.User):
		log.WarnContext(ctx, "batch postponed: its user is disabled")
		err = p.queue.postpone(after, b, reasonInactive, waitForUser)
	case errors.Is(err, errYield):
		log.InfoContext(ctx, "batch returned to the queue on request")
		err = p.queue.returnYielded(after, b)
	case isAside:
		log.WarnContext(ctx, "batch has deferred entries; it will be retried", "left", aside.entries, "reason", aside.reason)
		err = p.queue.retryDeferred(after, b, aside)
	case ctx.Err() != nil:
		err = p.queue.returnBatch(after, b, 0)
	case drive.IsKind(err, drive.Unavailable):
		log.WarnContext(ctx, "batch postponed: the database or a store is unavailable", "error", err)
		err = p.queue.postpone(after, b, reasonUnavailable, waitForStores)
	default:
		log.ErrorContext(ctx, "a try of a batch failed; it is retried, or fails after the last try", "error", err)
		err = p.queue.abort(after, b, drive.KindOf(err).String())
	}
	if err != nil && !errors.Is(err, errFenced) {
		log.WarnContext(ctx, "the outcome of a batch could not be stored; its lease will expire and the batch is retried", "error", err)
	}
}

// maxCrashTries limits the tries of work that crashed its process repeatedly without progress.
const maxCrashTries = 2 * maxTries

// attempt runs work and returns its error, or its panic as an error. After more than maxCrashTries
// tries, because the process seems to have died in each, it returns an error without running work.
func attempt(tries int64, work func() error) error {
	if tries > maxCrashTries {
		return fmt.Errorf("the process ended in each of %d tries", tries)
	}
	return recoverPanic(work)
}

// recoverPanic runs step and returns its error, or its panic as an error. Otherwise a process that
// crashes would claim the same work again and crash again.
func recoverPanic(step func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the work on an export: %v\n%s", p, debug.Stack())
		}
	}()
	return step()
}

// returnYielded makes a batch pending after its worker was asked to yield. If another machine asked
// for it, this machine does not claim it for handoverBan. A full turn without progress counts as a
// failed try; in the last try, fetches that are too slow fail.
func (q *queue) returnYielded(ctx context.Context, b *batch) error {
	now, err := q.find(ctx, q.opt.DB, "WHERE id = ?", b.ID)
	if err != nil {
		return err
	}
	at, err := q.now(ctx)
	if err != nil {
		return err
	}
	if now.Handovers == b.Handovers {
		return q.returnCounted(ctx, b, 0, b.unproductiveTurn(at))
	}
	q.counters.HandedOver.Add(1)
	return q.returnBatch(ctx, b, handoverBan)
}

// unproductiveTurn reports whether the batch had a full turn without progress. A batch that yielded
// early, because it was the second of its account, had no full turn.
func (b *batch) unproductiveTurn(now drive.Time) bool {
	return b.noProgress() && now.Sub(b.ClaimedAt) >= turnSlice
}

// noProgress reports whether no entry has arrived or failed since a worker claimed the batch;
// deferred entries do not count.
func (b *batch) noProgress() bool { return b.Collected+b.Failed == b.ClaimedDone }

// errOr returns err, or other if err is nil.
func errOr(err, other error) error {
	if err == nil {
		return other
	}
	return err
}
