package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/instance/lease"
)

// refusal is an error that rejects the bundle for good; reason is a code, detail a text for its
// owner.
type refusal struct{ reason, detail string }

// Error returns the reason and its detail, for logs.
func (r *refusal) Error() string { return r.reason + ": " + r.detail }

// waiting is an error that postpones the bundle, because what it lacks may still arrive; reason is
// a code, detail a text for its owner.
type waiting struct{ reason, detail string }

// Error returns the reason and its detail, for logs.
func (w *waiting) Error() string { return w.reason + ": " + w.detail }

// errTurnOver says that the bundle lets another account go first; its save point is stored.
var errTurnOver = errors.New("the account's turn is over")

// workers processes due bundles, at most Options.Workers at a time.
type workers struct {
	*core
	queue    *queue
	checker  *checker
	rulebook *rulebook
	library  *library

	slots chan struct{} // one entry per bundle that this process works on
	large chan struct{} // one entry while what is larger than envelope.LargeDocument is being decoded
}

// Wake makes a worker of this process look for due bundles now. It never blocks.
func (in *core) Wake() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// Run processes due bundles in the background until ctx is done, at most Options.Workers at a time.
// It then waits for its workers, which return their bundles so that other instances can claim them
// at once, and returns nil.
func (in *Intake) Run(ctx context.Context) error {
	return in.workers.run(ctx)
}

// run claims and processes bundles until ctx ends, waits for those in progress and returns nil.
// Failed polls are logged and repeated after a random pause; wake ends the pause.
func (in *workers) run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	var outage telemetry.Outage
	for ctx.Err() == nil {
		found, err := in.runOnce(ctx, &working)
		outage.Record(ctx, in.log, "polling for bundles failed; it will be repeated", err)
		if found {
			continue
		}
		select { // randomize the interval, so that instances do not poll in lockstep
		case <-time.After(pollEvery/2 + rand.N(pollEvery/2)):
		case <-in.wake:
		case <-ctx.Done():
		}
	}
	return nil
}

// Drain processes all due bundles, one after the other, and returns when none is left. Results are
// in the rows: the error only says that claiming failed.
func (in *Intake) Drain(ctx context.Context) error {
	return in.workers.drain(ctx)
}

// drain processes bundles one after the other until none can be claimed. It fails with the error of
// a claim; a bundle that fails is recorded and no error.
func (in *workers) drain(ctx context.Context) error {
	for {
		b, err := in.queue.claim(ctx)
		if err != nil || b == nil {
			return err
		}
		in.work(ctx, b)
	}
}

// runOnce claims one due bundle and starts a goroutine for it. If all slots are in use or no bundle
// is due, found is false. It fails with the error of the claim.
func (in *workers) runOnce(ctx context.Context, working *sync.WaitGroup) (found bool, err error) {
	select {
	case in.slots <- struct{}{}:
	default:
		return false, nil
	}
	b, err := in.queue.claim(ctx)
	if b == nil || err != nil {
		<-in.slots
		return false, err
	}
	working.Go(func() {
		defer in.Wake()
		defer func() { <-in.slots }()
		in.work(ctx, b)
	})
	return true, nil
}

// isTransient reports whether an error says nothing about the bundle, because a component is
// unavailable or full. Such an error does not count as a try.
func isTransient(err error) bool {
	return drive.IsKind(err, drive.Unavailable, drive.Stopping, drive.DiskFull, drive.Rate, drive.TooSlow)
}

// work processes a claimed bundle and records the result in its row: done, rejected, due again
// after a backoff, or due at once if its turn is over. Progress resets the backoff. If the lease is
// lost, it records nothing.
func (in *workers) work(ctx context.Context, b *row) {
	log := in.log.With("bundle", b.ID, "epoch", b.Epoch)
	before := b.Save
	err := lease.Run(ctx, func(ctx context.Context) (bool, error) { return in.queue.renewLease(ctx, b) },
		func(ctx context.Context, _ func() bool) error { return in.takeSafely(ctx, b) })
	// Record the result even if the process is stopping.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var no *refusal
	var wait *waiting
	tries, attempts := b.Tries, b.Attempts
	if b.Save != before {
		tries, attempts = 1, 1
	}
	switch {
	case errors.Is(err, lease.ErrFenced) || errors.Is(err, lease.ErrLost):
		log.WarnContext(ctx, "bundle lost to another worker; it stops here", "error", err)
		return
	case err == nil:
		in.stats.Done.Add(1)
		log.InfoContext(ctx, "a bundle is taken in", "declared", b.declared, "accepted", b.accepted, "rejected", b.rejected,
			"duplicate", b.duplicates, "conflict", b.conflicts)
		return
	case errors.Is(err, errTurnOver):
		b.Attempts-- // the next turn continues this attempt
		err = in.queue.giveBack(after, b, 0, 0, "", "")
	case errors.As(err, &no):
		err = in.refuse(after, b, no)
	case errors.As(err, &wait):
		err = in.queue.giveBack(after, b, pauseFor(attempts), 0, wait.reason, wait.detail)
	case ctx.Err() != nil:
		err = in.queue.giveBack(after, b, 0, tries-1, "", "")
	case isTransient(err):
		in.stats.Retried.Add(1)
		log.WarnContext(ctx, "bundle postponed: a component is unavailable or full", "error", err)
		err = in.queue.giveBack(after, b, pauseFor(attempts), tries-1, drive.KindOf(err).String(), "")
	case tries >= maxTries:
		log.ErrorContext(ctx, "bundle failed its last try; it is rejected", "error", err)
		err = in.refuse(after, b, &refusal{reasonFailed, drive.KindOf(err).String()})
	default:
		in.stats.Retried.Add(1)
		log.ErrorContext(ctx, "a try of a bundle failed; it is retried", "error", err, "tries", tries)
		err = in.queue.giveBack(after, b, pauseFor(tries), tries, drive.KindOf(err).String(), "")
	}
	if err != nil && !errors.Is(err, lease.ErrFenced) {
		log.WarnContext(ctx, "the outcome of a bundle could not be stored; its lease will expire and the bundle is retried", "error", err)
	}
}

// refuse rejects a bundle in its row, and counts and logs that. It fails if the row cannot be
// written. lease.ErrFenced: this worker has lost the bundle.
func (in *workers) refuse(ctx context.Context, b *row, why *refusal) error {
	err := in.queue.reject(ctx, b, why)
	if err == nil {
		in.stats.Rejected.Add(1)
		in.log.WarnContext(ctx, "bundle rejected; its owner sees the reason", "bundle", b.ID, "reason", why.reason, "detail", why.detail)
	}
	return err
}

// takeSafely calls processBundle and returns its error, or its panic as an error. Otherwise the
// bundle would crash one process after the other. After maxTries claims without a recorded result
// it rejects the bundle with *refusal.
func (in *workers) takeSafely(ctx context.Context, b *row) (err error) {
	defer func() {
		if p := recover(); p != nil {
			in.log.ErrorContext(ctx, "import of a bundle panicked; it counts as a failed try", "bundle", b.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if b.Tries > maxTries { // each earlier worker died without recording a result
		return &refusal{reasonFailed, "the process ended each time"}
	}
	return in.processBundle(ctx, b)
}
