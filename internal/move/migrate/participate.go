package migrate

import (
	"context"
	"errors"
	"sync"
	"time"
)

// participant is what a process does while something moves: it follows the phases, and one of them
// fills in and compares.
type participant struct {
	*gatekeeper
	compare  *comparator
	said     *announcer
	switcher *switcher
	left     *leftSide
}

// run is Migration.Run.
func (p *participant) run(ctx context.Context) error {
	for ctx.Err() == nil {
		p.look(ctx)
		if p.known() != nil {
			p.takePart(ctx)
			continue
		}
		p.rest(ctx)
	}
	return nil
}

// rest waits for idleEvery. A machine that slept has a monotonic clock that did not count it, so
// the wall clock has its say, too: a process that wakes up looks within a second.
func (p *participant) rest(ctx context.Context) {
	for begun := time.Now(); time.Since(begun) < idleEvery && time.Since(begun.Round(0)) < idleEvery; {
		select {
		case <-ctx.Done():
			return
		case <-p.begun:
			return
		case <-time.After(idleWake):
		}
	}
}

// takePart follows the phases, applies what was left, and lets one of the instances fill in and
// compare, until nothing moves any more or ctx is done.
func (p *participant) takePart(ctx context.Context) {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs.Go(func() { p.compare.run(ctx) })
	jobs.Go(func() {
		if err := p.party.Member.Lead(ctx, "migration", p.lead); err != nil {
			p.log.WarnContext(ctx, "the work of the migration ended", "error", err)
		}
	})
	jobs.Go(func() { p.party.Beside(ctx) })
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for p.known() != nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.look(ctx)
	}
}

// look is runOnce in a loop: what fails is logged, and the next one tries again.
func (p *participant) look(ctx context.Context) {
	if err := p.runOnce(ctx); err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "the migration", "error", err)
	}
}

// runOnce hears where the move stands, says that it has heard, and applies what is left.
func (p *participant) runOnce(ctx context.Context) error {
	if p.known() == nil {
		home, err := readRecord(ctx, p.home.DB, "")
		if err != nil || home.Role == nobody {
			return err
		}
	}
	if err := p.switcher.takeBack(ctx); err != nil {
		return err
	}
	v, err := p.refresh(ctx)
	if err != nil || v == nil {
		return err
	}
	if v.near == nil {
		return p.switcher.end(ctx)
	}
	p.switcher.led()
	if v.far.Role == fenced { // the new primary is there, and the old one does not follow yet
		if err := p.switcher.resolve(ctx); err != nil {
			return err
		}
	}
	if err := p.said.ack(ctx, v); err != nil {
		return err
	}
	if v.Phase == NewOnly {
		return p.left.dropRows(ctx, v)
	}
	if v.other == nil || v.Phase == Freeze {
		return nil
	}
	if err := p.apply.lookForLoss(ctx, v); err != nil {
		if isLoss(err) { // it is in the log, and closes the gates
			err = nil
		}
		return err
	}
	var left bool
	if err := v.near.DB.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM migration_changes)").Scan(&left); err != nil || !left {
		return err
	}
	return p.apply.now(ctx)
}

// lead is what one instance does.
func (p *participant) lead(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := p.leadOnce(ctx); err != nil && !errors.Is(err, errStop) && ctx.Err() == nil {
			p.log.WarnContext(ctx, "the migration stands still", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (p *participant) leadOnce(ctx context.Context) error {
	v := p.known()
	if v == nil || v.near == nil {
		return nil
	}
	if v.Careful {
		if err := p.switcher.calmLate(ctx, v); err != nil {
			return err
		}
	}
	if v.Phase == NewOnly {
		return errors.Join(p.left.part(ctx, v), p.left.arriveLate(ctx, v))
	}
	if v.other == nil || v.Paused || v.Phase == Freeze {
		return nil
	}
	if v.Phase < WriteNew {
		if err := p.fill(ctx, v); err != nil {
			return err
		}
	}
	return p.verify(ctx, v)
}
