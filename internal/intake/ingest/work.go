package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/engine/instance/lease"
)

// refusal ends a bundle as rejected.
type refusal struct{ reason, detail string }

func (r *refusal) Error() string { return r.reason + ": " + r.detail }

// waiting puts a bundle off: what it needs may still come.
type waiting struct{ reason, detail string }

func (w *waiting) Error() string { return w.reason + ": " + w.detail }

// workers take in what is due, as many at a time as this process may.
type workers struct {
	*ground
	queue    *queue
	checker  *checker
	rulebook *rulebook
	library  *library

	slots chan struct{} // what this process works on
	large chan struct{} // the member of more than largeMember that is being read
}

// Wake makes a worker of this process look for work now.
func (in *ground) Wake() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// Run takes bundles in until ctx is done. It then returns once every worker has stopped; what they
// had is free for others at once.
func (in *Intake) Run(ctx context.Context) error {
	return in.workers.run(ctx)
}

func (in *workers) run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	var outage telemetry.Outage
	for ctx.Err() == nil {
		found, err := in.runOnce(ctx, &working)
		outage.Record(ctx, in.log, "the look for bundles failed and will be repeated", err)
		if found {
			continue
		}
		select { // pollers that were started together do not stay together
		case <-time.After(pollEvery/2 + rand.N(pollEvery/2)):
		case <-in.wake:
		case <-ctx.Done():
		}
	}
	return nil
}

// Drain takes in all that is due, one after the other, and returns when nothing is left.
func (in *Intake) Drain(ctx context.Context) error {
	return in.workers.drain(ctx)
}

func (in *workers) drain(ctx context.Context) error {
	for {
		b, err := in.queue.claim(ctx)
		if err != nil || b == nil {
			return err
		}
		in.work(ctx, b)
	}
}

// runOnce takes one bundle and begins it, if there is one and there is room for it here.
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

// passing are the kinds of errors that say nothing about a bundle: a component is away, or full.
func passing(err error) bool {
	return drive.IsKind(err, drive.Unavailable, drive.Stopping, drive.DiskFull, drive.Rate, drive.TooSlow)
}

// work takes a bundle in, and says in its row how that ended.
func (in *workers) work(ctx context.Context, b *row) {
	log := in.log.With("bundle", b.ID, "epoch", b.Epoch)
	before := b.Save
	err := lease.Run(ctx, func(ctx context.Context) (bool, error) { return in.queue.beat(ctx, b) },
		func(ctx context.Context, _ func() bool) error { return in.takeSafely(ctx, b) })
	// What follows is worth a moment also when the process stops.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var no *refusal
	var wait *waiting
	tries := b.Tries
	if b.Save != before {
		tries = 1
	}
	switch {
	case errors.Is(err, lease.ErrFenced) || errors.Is(err, lease.ErrLost):
		log.WarnContext(ctx, "a bundle was lost", "error", err)
		return
	case err == nil:
		in.stats.Done.Add(1)
		log.InfoContext(ctx, "a bundle is taken in", "declared", b.declared, "accepted", b.accepted, "rejected", b.rejected,
			"duplicate", b.duplicates, "conflict", b.conflicts)
		return
	case errors.As(err, &no):
		err = in.refuse(after, b, no)
	case errors.As(err, &wait):
		err = in.queue.giveBack(after, b, pauseFor(b.Attempts), 0, wait.reason, wait.detail)
	case ctx.Err() != nil:
		err = in.queue.giveBack(after, b, 0, tries-1, "", "")
	case passing(err):
		in.stats.Retried.Add(1)
		log.WarnContext(ctx, "a bundle waits for a component", "error", err)
		err = in.queue.giveBack(after, b, pauseFor(b.Attempts), tries-1, drive.KindOf(err).String(), "")
	case tries >= maxTries:
		log.ErrorContext(ctx, "a bundle cannot be taken in", "error", err)
		err = in.refuse(after, b, &refusal{reasonFailed, drive.KindOf(err).String()})
	default:
		in.stats.Retried.Add(1)
		log.ErrorContext(ctx, "a bundle will be tried again", "error", err, "tries", tries)
		err = in.queue.giveBack(after, b, pauseFor(tries), tries, drive.KindOf(err).String(), "")
	}
	if err != nil && !errors.Is(err, lease.ErrFenced) {
		log.WarnContext(ctx, "how a bundle ended could not be written; its lease will end", "error", err)
	}
}

func (in *workers) refuse(ctx context.Context, b *row, why *refusal) error {
	err := in.queue.reject(ctx, b, why)
	if err == nil {
		in.stats.Rejected.Add(1)
		in.log.WarnContext(ctx, "a bundle was rejected", "bundle", b.ID, "reason", why.reason, "detail", why.detail)
	}
	return err
}

// takeSafely is take that a panic does not end the process with: the same bundle would end the next
// one, too.
func (in *workers) takeSafely(ctx context.Context, b *row) (err error) {
	defer func() {
		if p := recover(); p != nil {
			in.log.ErrorContext(ctx, "panic while a bundle was taken in", "bundle", b.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if b.Tries > maxTries { // whoever took it did not live to say why
		return &refusal{reasonFailed, "the process ended each time"}
	}
	return in.take(ctx, b)
}
