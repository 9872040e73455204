package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Migration moves the installation of Options.DB. It is safe for concurrent use. Its methods are
// the steps of administrators and the hooks of the process.
type Migration struct {
	// the snapshot of the migration
	*sides      // where it stands
	*gatekeeper // conditions of steps, filling and comparing
	inspector   *inspector
	switcher    *switcher
	announcer   *announcer
	oldSide     *oldSide
	participant *participant
	traffic     *router
}

// New returns a Migration with defaults for the zero fields of opt. It does no I/O and starts no
// goroutine; Run follows the phases.
func New(opt Options) *Migration {
	opt.Log = cmp.Or(opt.Log, slog.Default())
	if opt.Show == nil {
		opt.Show = func(string) string { return "" }
	}
	opt.Sample = cmp.Or(opt.Sample, 0.01)
	opt.RetainOld = cmp.Or(opt.RetainOld, defaultKeep)
	b := &sides{opt: opt, log: opt.Log, started: make(chan struct{}, 1), tablesBySide: map[*Side][]*table{}}
	b.home.DB = opt.DB.Direct()
	counts, apply := &counters{}, &applier{sides: b}
	match := &matcher{filler: &filler{sides: b}, apply: apply}
	compare := newComparator(match, counts)
	to := &router{sides: b, apply: apply, compare: compare, counts: counts}
	b.router = to
	party := &Party{}
	gates := &gatekeeper{matcher: match, party: party}
	said := &announcer{sides: b, party: party}
	left := &oldSide{gates}
	switches := &switcher{gatekeeper: gates, announcer: said, takeoverAfter: takeoverTime, testHook: func(string) error { return nil }}
	return &Migration{
		sides: b, gatekeeper: gates, inspector: &inspector{b, party}, switcher: switches, announcer: said, oldSide: left, traffic: to,
		participant: &participant{gatekeeper: gates, compare: compare, announcer: said, switcher: switches, oldSide: left},
	}
}

// IsRecorded reports whether db belongs to a migration. It reads one row.
func IsRecorded(ctx context.Context, db *sqldb.DB) (bool, error) {
	have, err := readRecord(ctx, db, "")
	return have.Role != noRole, err
}

// Restore loads the state of a migration and routes opt.DB to the primary. Call it once after
// opening the database and before any other read. It returns WrongState if the configured side was
// retired, and if reads of the new side would use a side that is not the one that was filled.
func (m *Migration) Restore(ctx context.Context) error {
	home, err := readRecord(ctx, m.home.DB, "")
	if err != nil || home.Role == noRole {
		return err
	}
	if err := m.openHome(ctx); err != nil {
		return err
	}
	v, err := m.waitPrimary(ctx, time.Now().Add(m.switcher.takeoverAfter))
	// No primary: the fenced side may be home or, on the way back, the other side, and a switch may
	// have begun since home was read.
	if err != nil && home.Role != retired || v != nil && v.otherRecord.Role == fenced {
		if err = m.switcher.resolve(ctx); err == nil {
			v, err = m.refresh(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("take the migration up again: %w", err)
	}
	if v != nil && v.otherDown { // the primary serves alone, and nothing is read from the other side
		m.log.WarnContext(ctx, "the other side of the migration cannot be reached; changes are collected and applied later", "phase", int(v.Phase))
		return nil
	}
	if v != nil && v.Phase >= ReadNew && v.Peer != "" && v.Phase != NewOnly {
		if g := m.checkTarget(ctx, v); !g.OK {
			return drive.Wrap(fmt.Errorf("the migration stands at phase %d, and its evidence does not hold: %s", v.Phase, g.Detail), drive.WrongState)
		}
	}
	return nil
}

// Run waits for a migration and takes part in it until ctx ends, and then returns nil. It notices a
// migration that begins in another process within idleEvery. Call SetParty before.
func (m *Migration) Run(ctx context.Context) error { return m.participant.run(ctx) }

// Acknowledge records, without waiting for Run, that this process acts by the current epoch. It
// does nothing if nothing moves or no side is primary.
func (m *Migration) Acknowledge(ctx context.Context) error {
	v, err := m.refresh(ctx)
	if err != nil || v == nil || v.primary == nil {
		return err
	}
	return m.announcer.ack(ctx, v)
}

// Close waits for running passes and closes the databases opened by this package. The caller closes
// opt.DB.
func (m *Migration) Close() error {
	m.apply.close()
	m.opt.DB.Route(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.obsolete
	if m.away != nil {
		all = append(all, m.away.DB, m.away.Unchecked)
	}
	if m.home.Unchecked != nil {
		all = append(all, m.home.Unchecked)
	}
	m.away, m.home.Unchecked, m.obsolete = nil, nil, nil
	var errs []error
	for _, db := range all {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}
