package fsck

import (
	"context"
	"fmt"
	"time"
)

// pages is the check of the database file.
type pages struct{ *pass }

// check reads the pages of a SQLite file and records what is wrong with them (S1).
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
	if err := p.found(ctx, defect{Finding: f}); err != nil { // the table of findings may be what is damaged
		f.FoundAt, f.SeenAt = p.now(), p.now()
		p.add(ctx, f)
		p.opt.Log.WarnContext(ctx, "the finding could not be recorded", "error", err)
	}
	return nil
}

// DatabaseDamaged reports whether the last check of the pages of the database has found damage.
func (a *Checker) DatabaseDamaged() bool { return a.Counters.Pages.Load() > 0 }

// Suspect asks RunSuspicions for a check of the pages, because an access has met a damaged one. It
// does not block.
func (a *Checker) Suspect() {
	select {
	case a.suspect <- struct{}{}:
	default:
	}
}

// suspectEvery is the least time between two checks that Suspect asks for: each reads the whole
// file.
const suspectEvery = 10 * time.Minute

// RunSuspicions checks the pages of the database when Suspect asks for it, until ctx is done.
func (a *Checker) RunSuspicions(ctx context.Context) error {
	for {
		select {
		case <-a.suspect:
		case <-ctx.Done():
			return nil
		}
		p := pages{&pass{Checker: a}}
		if err := p.check(ctx, false); err != nil && ctx.Err() == nil {
			a.opt.Log.ErrorContext(ctx, "the pages of the database could not be checked", "error", err)
		}
		if a.opt.Sleep(ctx, suspectEvery) != nil {
			return nil //nolint:nilerr // ctx is done
		}
	}
}
