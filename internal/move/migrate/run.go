package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Migration moves the installation that DB is the handle of. It is safe for concurrent use.
type Migration struct {
	*both       // where it stands
	*gatekeeper // what opens the next phase: rows that were brought and compared
	apply       *applier
	compare     *comparator
	traffic     *traffic
	counts      *counters

	// Guarded by looking:
	heard    int64     // the epoch that this process has told of
	heardAt  time.Time // when it last did
	waits    string    // why it did not acknowledge it; empty: it did
	warmed   bool      // for the switch that everybody is careful for
	fencedAt time.Time // since when nobody is the primary, as seen here

	mendAfter time.Duration           // mendTime
	halt      func(step string) error // of tests: called at each step of a switch
}

// New does no I/O.
func New(opt Options) *Migration {
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	if opt.Show == nil {
		opt.Show = func(string) string { return "" }
	}
	if opt.Sample == 0 {
		opt.Sample = 0.01
	}
	if opt.Keep == 0 {
		opt.Keep = defaultKeep
	}
	b := &both{opt: opt, log: opt.Log, begun: make(chan struct{}, 1), shaped: map[*Side][]*table{}}
	b.home.DB = opt.DB.Direct()
	counts, apply := &counters{}, &applier{both: b}
	match := &matcher{filler: &filler{both: b}, apply: apply}
	compare := newComparator(match, counts)
	to := &traffic{both: b, apply: apply, compare: compare, counts: counts}
	b.router = to
	m := &Migration{
		both: b, gatekeeper: &gatekeeper{matcher: match}, apply: apply, compare: compare, traffic: to, counts: counts,
		mendAfter: mendTime, halt: func(string) error { return nil },
	}
	return m
}

// Restore finds out whether the installation is moving and, if so, makes opt.DB go to the side that is the truth. It is called once,
// after the database was opened and before anything else is read. It refuses a side that was left, and a new side that is not the one
// that was filled, whatever the rows of the move say.
func (m *Migration) Restore(ctx context.Context) error {
	home, err := readRecord(ctx, m.home.DB, "")
	if err != nil || home.Role == nobody {
		return err
	}
	if err := m.openHome(ctx); err != nil {
		return err
	}
	v, err := m.settled(ctx, time.Now().Add(m.mendAfter))
	if err != nil && home.Role == fenced || v != nil && (v.near == nil || v.far.Role == fenced) {
		if err = m.resolve(ctx); err == nil {
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
func (m *Migration) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		m.look(ctx)
		if m.known() != nil {
			m.takePart(ctx)
			continue
		}
		m.rest(ctx)
	}
	return nil
}

// rest waits for idleEvery. A machine that slept has a monotonic clock that did not count it, so
// the wall clock has its say, too: a process that wakes up looks within a second.
func (m *Migration) rest(ctx context.Context) {
	for begun := time.Now(); time.Since(begun) < idleEvery && time.Since(begun.Round(0)) < idleEvery; {
		select {
		case <-ctx.Done():
			return
		case <-m.begun:
			return
		case <-time.After(idleWake):
		}
	}
}

// takePart follows the phases, applies what was left, and lets one of the instances fill in and
// compare, until nothing moves any more or ctx is done.
func (m *Migration) takePart(ctx context.Context) {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs.Go(func() { m.compare.run(ctx) })
	jobs.Go(func() {
		if err := m.party.Member.Lead(ctx, "migration", m.lead); err != nil {
			m.log.WarnContext(ctx, "the work of the migration ended", "error", err)
		}
	})
	jobs.Go(func() { m.party.Beside(ctx) })
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for m.known() != nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.look(ctx)
	}
}

// look is runOnce in a loop: what fails is logged, and the next one tries again.
func (m *Migration) look(ctx context.Context) {
	if err := m.runOnce(ctx); err != nil && ctx.Err() == nil {
		m.log.WarnContext(ctx, "the migration", "error", err)
	}
}

// runOnce hears where the move stands, says that it has heard, and applies what is left.
func (m *Migration) runOnce(ctx context.Context) error {
	if m.known() == nil {
		home, err := readRecord(ctx, m.home.DB, "")
		if err != nil || home.Role == nobody {
			return err
		}
	}
	v, err := m.refresh(ctx)
	if err != nil || v == nil {
		return err
	}
	if v.near == nil {
		return m.mend(ctx)
	}
	m.looking.Lock()
	m.fencedAt = time.Time{}
	m.looking.Unlock()
	if v.far.Role == fenced { // the new primary is there, and the old one does not follow yet
		if err := m.resolve(ctx); err != nil {
			return err
		}
	}
	if err := m.ack(ctx, v); err != nil {
		return err
	}
	if v.Phase == NewOnly {
		return m.dropRows(ctx, v)
	}
	if v.other == nil || v.Phase == Freeze {
		return nil
	}
	if err := m.apply.lookForLoss(ctx, v); err != nil {
		if errors.Is(err, errLost) { // it is in the log, and closes the gates
			err = nil
		}
		return err
	}
	var left bool
	if err := v.near.DB.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM migration_changes)").Scan(&left); err != nil || !left {
		return err
	}
	return m.apply.now(ctx)
}

const (
	ackEvery = 5 * time.Second
	mendTime = 5 * time.Second // that a switch may take before others end it
)

// ack says which epoch this process acts by. Where something that the epoch wants is not open yet it says so instead: the gate names it,
// and stays closed (M5).
func (m *Migration) ack(ctx context.Context, v *view) error {
	if err := m.learnNotes(ctx, v); err != nil {
		return err
	}
	m.warm(ctx, v)
	why := cutTo(m.unready(v), maxWhy)
	m.looking.Lock()
	due := m.heard != v.Epoch || m.waits != why || time.Since(m.heardAt) > ackEvery
	m.looking.Unlock()
	if !due {
		return nil
	}
	now, err := v.near.DB.Now(ctx)
	if err != nil {
		return err
	}
	me := m.party.Member.Info().Generation
	err = v.near.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if why != "" {
			_, err := tx.Exec(ctx, "REPLACE INTO migration_waits (instance, epoch, why, seen_at) VALUES (?, ?, ?, ?)", me, v.Epoch, why, now)
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM migration_waits WHERE instance = ?", me); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "REPLACE INTO migration_acks (instance, epoch, seen_at) VALUES (?, ?, ?)", me, v.Epoch, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("acknowledge the epoch: %w", err)
	}
	m.looking.Lock()
	defer m.looking.Unlock()
	m.heard, m.waits, m.heardAt = v.Epoch, why, time.Now()
	return nil
}

// warm opens connections to the side that is about to become the primary: all who waited for the switch come to it at once. It belongs to
// being ready, which everybody must be before a switch begins.
func (m *Migration) warm(ctx context.Context, v *view) {
	m.looking.Lock()
	due := v.Careful && v.other != nil && !m.warmed
	m.warmed = v.Careful && (m.warmed || due)
	m.looking.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warmTime)
	defer cancel()
	if err := v.other.DB.Warm(ctx); err != nil { // it costs time, later
		m.log.WarnContext(ctx, "connections for the switch", "error", err)
	}
}

const warmTime = 2 * time.Second

// maxWhy bounds the reason why an instance waits, in bytes.
const maxWhy = 1000

// unready says what this process lacks to act by what it has heard of; empty: nothing.
func (m *Migration) unready(v *view) string {
	switch {
	case v.Peer != "" && v.other == nil && v.Phase >= Fill && v.Phase <= WriteNew:
		return "the other database: " + v.why
	case v.Peer != "" && !v.home && m.notes().old.Dropping:
		return "it was started with the old settings"
	}
	if err := m.party.Ready(m.stateOf(v)); err != nil {
		return err.Error()
	}
	return ""
}

// Acknowledge says which epoch this process acts by, without waiting for Run to do it.
func (m *Migration) Acknowledge(ctx context.Context) error {
	v, err := m.refresh(ctx)
	if err != nil || v == nil || v.near == nil {
		return err
	}
	return m.ack(ctx, v)
}

// mend ends a switch that whoever began it has left in the middle.
func (m *Migration) mend(ctx context.Context) error {
	m.looking.Lock()
	if m.fencedAt.IsZero() {
		m.fencedAt = time.Now()
	}
	since := time.Since(m.fencedAt)
	m.looking.Unlock()
	if since < m.mendAfter {
		return nil
	}
	return m.resolve(ctx)
}

// lead is what one instance does.
func (m *Migration) lead(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := m.leadOnce(ctx); err != nil && !errors.Is(err, errStop) && ctx.Err() == nil {
			m.log.WarnContext(ctx, "the migration stands still", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (m *Migration) leadOnce(ctx context.Context) error {
	v := m.known()
	if v == nil || v.near == nil {
		return nil
	}
	if v.Careful {
		if err := m.calmLate(ctx, v); err != nil {
			return err
		}
	}
	if v.Phase == NewOnly {
		return m.part(ctx, v)
	}
	if v.other == nil || v.Paused || v.Phase == Freeze {
		return nil
	}
	if v.Phase < WriteNew {
		if err := m.fill(ctx, v); err != nil {
			return err
		}
	}
	return m.verify(ctx, v)
}

// Close waits for what is being applied, and closes what this package has opened. The caller closes opt.DB.
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

// State returns what this process knows, without asking.
func (m *Migration) State() State {
	v := m.known()
	if v == nil {
		return State{}
	}
	return m.stateOf(v)
}

func (m *Migration) stateOf(v *view) State {
	n := m.notes()
	return State{
		ID: v.Migration, Phase: v.Phase, Epoch: v.Epoch, Percent: v.Percent, Paused: v.Paused, Contents: v.Contents,
		Switched: v.Phase >= WriteNew, Mine: v.home == (v.Phase >= WriteNew),
		Pace: n.pace, Dropping: n.old.Dropping && v.Phase == NewOnly, OldContents: n.old.Contents, OldGone: n.old.Blobs.Ended, Deep: n.old.Deep,
	}
}
