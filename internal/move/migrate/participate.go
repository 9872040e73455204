package migrate

import (
	"context"
	"errors"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/telemetry"
)

// participant follows the phases in this process. One instance, the leader, also fills in and
// compares.
type participant struct {
	*gatekeeper
	compare   *comparator
	announcer *announcer
	switcher  *switcher
	oldSide   *oldSide
	away      telemetry.Outage // polls that failed
}

// run follows the migration until ctx ends, and then returns nil. While there is no migration it
// only polls for one.
func (p *participant) run(ctx context.Context) error {
	for ctx.Err() == nil {
		p.poll(ctx)
		if p.currentSnapshot() != nil {
			p.participate(ctx)
			continue
		}
		p.waitIdle(ctx)
	}
	return nil
}

// waitIdle waits for idleEvery, or until a migration begins here. It also checks the wall clock,
// because the monotonic clock does not count the sleep of a machine.
func (p *participant) waitIdle(ctx context.Context) {
	for begun := time.Now(); time.Since(begun) < idleEvery && time.Since(begun.Round(0)) < idleEvery; {
		select {
		case <-ctx.Done():
			return
		case <-p.started:
			return
		case <-time.After(idleWake):
		}
	}
}

// participate follows the phases until nothing moves or ctx ends: it polls, applies pending
// changes, compares sampled queries and runs Party.Background. In the process that leads, it also
// fills in and compares rows. It returns when all of this has stopped.
func (p *participant) participate(ctx context.Context) {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs.Go(func() { p.compare.run(ctx) })
	jobs.Go(func() {
		if err := p.party.Member.Lead(ctx, "migration", p.lead); err != nil {
			p.log.WarnContext(ctx, "this process no longer leads the migration; another instance continues it", "error", err)
		}
	})
	jobs.Go(func() { p.party.Background(ctx) })
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for p.currentSnapshot() != nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.poll(ctx)
	}
}

// poll calls runOnce and logs its error; the next poll retries.
func (p *participant) poll(ctx context.Context) {
	p.away.Record(ctx, p.log, "polling the migration failed; it will be repeated", p.runOnce(ctx))
}

// runOnce refreshes the snapshot, acknowledges its epoch, and applies pending changes once; it also
// repairs an interrupted switch. It does nothing if there is no migration. The caller repeats it
// after an error.
func (p *participant) runOnce(ctx context.Context) error {
	if p.currentSnapshot() == nil {
		home, err := readRecord(ctx, p.home.DB, "")
		if err != nil || home.Role == noRole {
			return err
		}
	}
	if err := p.switcher.restorePrimary(ctx); err != nil {
		return err
	}
	v, err := p.refresh(ctx)
	if err != nil || v == nil {
		return err
	}
	if v.primary == nil {
		return p.switcher.endAbandoned(ctx)
	}
	p.switcher.clearFencedAt()
	if v.otherRecord.Role == fenced { // the old primary does not follow the new one yet
		if err := p.switcher.resolve(ctx); err != nil {
			return err
		}
	}
	if err := p.announcer.ack(ctx, v); err != nil {
		return err
	}
	if v.Phase == NewOnly {
		return p.oldSide.dropRows(ctx, v)
	}
	if v.other == nil || v.Phase == Freeze {
		return nil
	}
	if err := p.apply.checkReceiptsNow(ctx, v); err != nil {
		if isLoss(err) { // logged already, and the gates are closed
			err = nil
		}
		return err
	}
	var left bool
	if err := v.primary.DB.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM migration_changes)").Scan(&left); err != nil || !left {
		return err
	}
	return p.apply.applyPending(ctx)
}

// lead runs leadOnce every pollEvery until ctx ends, and then returns nil. A failed step is logged
// and repeated. Only the holder of the leader's lease calls it.
func (p *participant) lead(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		err := p.leadOnce(ctx)
		if errors.Is(err, errStop) {
			err = nil
		}
		outage.Record(ctx, p.log, "a step of the migration failed; it will be repeated", err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// leadOnce runs the leader's next step: it ends a stale careful mode, fills in and compares rows,
// or in phase 5 detaches the old side and runs Party.OnArrived. While the migration is paused it
// does not fill in or compare.
func (p *participant) leadOnce(ctx context.Context) error {
	v := p.currentSnapshot()
	if v == nil || v.primary == nil {
		return nil
	}
	if v.Careful {
		if err := p.switcher.endStaleCareful(ctx, v); err != nil {
			return err
		}
	}
	if v.Phase == NewOnly {
		return errors.Join(p.oldSide.detach(ctx, v), p.oldSide.runArrivedWhenReady(ctx, v))
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
