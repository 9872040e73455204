package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"smartdrive/internal/base/drive"
)

// Migration moves the installation that DB is the handle of. It is safe for concurrent use. Its
// methods are the steps of administrators, and what a process takes part with.
type Migration struct {
	*both       // where it stands
	*gatekeeper // what opens the next phase: rows that were brought and compared
	inspector   *inspector
	switcher    *switcher
	said        *announcer
	left        *leftSide
	taking      *participant
	traffic     *traffic
}

// New does no I/O.
func New(opt Options) *Migration {
	opt.Log = cmp.Or(opt.Log, slog.Default())
	if opt.Show == nil {
		opt.Show = func(string) string { return "" }
	}
	opt.Sample = cmp.Or(opt.Sample, 0.01)
	opt.Keep = cmp.Or(opt.Keep, defaultKeep)
	b := &both{opt: opt, log: opt.Log, begun: make(chan struct{}, 1), shaped: map[*Side][]*table{}}
	b.home.DB = opt.DB.Direct()
	counts, apply := &counters{}, &applier{both: b}
	match := &matcher{filler: &filler{both: b}, apply: apply}
	compare := newComparator(match, counts)
	to := &traffic{both: b, apply: apply, compare: compare, counts: counts}
	b.router = to
	party := &Party{}
	gates := &gatekeeper{matcher: match, party: party}
	said := &announcer{both: b, party: party}
	left := &leftSide{gates}
	switches := &switcher{gatekeeper: gates, said: said, mendAfter: mendTime, halt: func(string) error { return nil }}
	return &Migration{
		both: b, gatekeeper: gates, inspector: &inspector{b, party}, switcher: switches, said: said, left: left, traffic: to,
		taking: &participant{gatekeeper: gates, compare: compare, said: said, switcher: switches, left: left},
	}
}

// Restore finds out whether the installation is moving and, if so, makes opt.DB go to the side that
// is the truth. It is called once, after the database was opened and before anything else is read.
// It refuses a side that was left, and a new side that is not the one that was filled, whatever the
// rows of the move say.
func (m *Migration) Restore(ctx context.Context) error {
	home, err := readRecord(ctx, m.home.DB, "")
	if err != nil || home.Role == nobody {
		return err
	}
	if err := m.openHome(ctx); err != nil {
		return err
	}
	v, err := m.settled(ctx, time.Now().Add(m.switcher.mendAfter))
	// Nobody is the primary: the fenced side may be this one or, on the way back, the other, and a
	// switch may have begun since home was read.
	if err != nil && home.Role != retired || v != nil && v.far.Role == fenced {
		if err = m.switcher.resolve(ctx); err == nil {
			v, err = m.refresh(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("take the migration up again: %w", err)
	}
	if v != nil && v.deaf { // the primary serves without it, and nothing is read from it
		m.log.WarnContext(ctx, "the other side of the migration cannot be reached", "phase", int(v.Phase))
		return nil
	}
	if v != nil && v.Phase >= ReadNew && v.Peer != "" && v.Phase != NewOnly {
		if g := m.checkTarget(ctx, v); !g.OK {
			return drive.Wrap(fmt.Errorf("the migration stands at phase %d, and its evidence does not hold: %s", v.Phase, g.Detail), drive.WrongState)
		}
	}
	return nil
}

// Run waits for a migration and takes part in it, until ctx is done. A process learns of one that
// begins elsewhere within idleEvery, and of one that begins here at once. Until then it does
// nothing but look.
func (m *Migration) Run(ctx context.Context) error { return m.taking.run(ctx) }

// Acknowledge says which epoch this process acts by, without waiting for Run to do it.
func (m *Migration) Acknowledge(ctx context.Context) error {
	v, err := m.refresh(ctx)
	if err != nil || v == nil || v.near == nil {
		return err
	}
	return m.said.ack(ctx, v)
}

// Close waits for what is being applied, and closes what this package has opened. The caller closes
// opt.DB.
func (m *Migration) Close() error {
	m.apply.close()
	m.opt.DB.Route(nil)
	m.looking.Lock()
	defer m.looking.Unlock()
	all := m.closing
	if m.away != nil {
		all = append(all, m.away.DB, m.away.Unchecked)
	}
	if m.home.Unchecked != nil {
		all = append(all, m.home.Unchecked)
	}
	m.away, m.home.Unchecked, m.closing = nil, nil, nil
	var errs []error
	for _, db := range all {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}
