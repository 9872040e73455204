package fsck

import (
	"context"
	"fmt"
	"time"
)

// pages checks the pages of the database file.
type pages struct{ *pass }

// check checks the pages of a SQLite file and records the damage (S1). thorough also checks what
// takes long.
func (p pages) check(ctx context.Context, thorough bool) error {
	found, err := p.DB.CheckPages(ctx, thorough)
	if err != nil {
		return err
	}
	p.Counters.PagesAt.Store(int64(p.now()))
	p.Counters.Pages.Store(int64(len(found)))
	if len(found) == 0 {
		return nil
	}
	p.report.DatabaseDamaged = true
	f := Finding{Invariant: "S1", Subject: "database", Expected: "pages as SQLite wrote them", Found: found[0]}
	if more := len(found) - 1; more > 0 {
		f.Found = fmt.Sprintf("%s (and at least %d more)", f.Found, more)
	}
	if err := p.found(ctx, defect{Finding: f}); err != nil { // the findings table itself may be damaged
		f.FoundAt, f.SeenAt = p.now(), p.now()
		p.add(ctx, f)
		p.opt.Log.WarnContext(ctx, "a finding about damaged database pages could not be recorded", "error", err)
	}
	return nil
}

// DatabaseDamaged reports whether the last check of the database pages found damage. Before the
// first check it returns false.
func (c *Checker) DatabaseDamaged() bool { return c.Counters.Pages.Load() > 0 }

// RequestPageCheck requests a check of the pages by RunPageChecks, after an access met a damaged
// page. It does not block.
func (c *Checker) RequestPageCheck() {
	select {
	case c.pageCheck <- struct{}{}:
	default:
	}
}

// suspectEvery is the minimum interval of checks requested by RequestPageCheck, because each reads
// the whole file.
const suspectEvery = 10 * time.Minute

// RunPageChecks checks the database pages on request of RequestPageCheck until ctx ends. It returns
// nil.
func (c *Checker) RunPageChecks(ctx context.Context) error {
	for {
		select {
		case <-c.pageCheck:
		case <-ctx.Done():
			return nil
		}
		p := pages{&pass{Checker: c}}
		if err := p.check(ctx, false); err != nil && ctx.Err() == nil {
			c.opt.Log.ErrorContext(ctx, "the database pages could not be checked after a suspicion; run fsck", "error", err)
		}
		if c.opt.Sleep(ctx, suspectEvery) != nil {
			return nil //nolint:nilerr // ctx ended
		}
	}
}
