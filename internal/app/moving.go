package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/instance"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/move/contents"
	"smartdrive/internal/move/migrate"
)

// mover takes an installation to another place. What it is doing is in the database; this is what
// the process has open for it.
type mover struct {
	Installation // once it is known
	cfg          config.Config
	log          *slog.Logger
	db           *sqldb.DB
	first        marks // of the configured place of contents
	rows         *migrate.Migration
	member       *instance.Member
	copier       *contents.Copier
	pair         *contents.Pair
	arm          func(ctx context.Context) error // arms all timers; it is made after this

	steps sync.Mutex // held while an administrator's step is taken; before mu

	mu     sync.Mutex // held while a second place is opened
	second *place     // nil: contents do not move
	at     string     // State.Contents that second was opened for
	closed []func() error

	known  sync.Mutex    // guards what follows
	done   migrate.State // what everything that is open is as it wants it
	failed string        // why it is not as a later one wants it
}

const (
	leaseContents = "contents"
	followEvery   = 100 * time.Millisecond // how often a process compares what it has open with where the move stands
	followAgain   = 2 * time.Second        // what could not be opened is tried again then
)

// newMover does no I/O. kept is the clock of retention.
func newMover(cfg config.Config, log *slog.Logger, db *sqldb.DB, kept func() time.Time) *mover {
	m := &mover{cfg: cfg, log: log, db: db}
	m.rows = migrate.New(migrate.Options{
		DB: db, Here: databasePlace(cfg), Open: m.openDatabase, Show: config.Shown, Keep: cfg.MigrationKeep, Kept: kept, Log: log,
	})
	return m
}

// takeUp finds out whether the installation is moving, and lets the database's handle go to the
// side that is the truth. It comes before anything else is read. It returns where the mark of the
// installation is, of which first is the configured place.
func (m *mover) takeUp(ctx context.Context, first marks) (marks, error) {
	m.first = first
	if err := m.rows.Restore(ctx); err != nil {
		return nil, err
	}
	state := m.rows.State()
	if err := m.rightSettings(state); err != nil {
		return nil, err
	}
	if m.leavesContents(state) {
		if err := m.openSecond(ctx, state); err != nil {
			return nil, err
		}
	}
	return m.marksOf(state), nil
}

// MovedError says that this start has the settings of a side that is not to be started now. Nothing
// was changed.
type MovedError struct{ Want string }

func (e *MovedError) Error() string { return e.Want }

// rightSettings refuses a start with the settings of the new side before the migration has
// finished, and with those of the old one after it has: each would serve a part of what there is.
func (m *mover) rightSettings(state migrate.State) error {
	if state.ID == "" {
		return nil
	}
	to := m.rows.Target()
	rowsMove, newRows, newContents := to != "", state.Mine, m.atNewContents(state)
	old := (!rowsMove || !newRows) && (state.Contents == "" || !newContents)
	fresh := (!rowsMove || newRows) && (state.Contents == "" || newContents)
	switch {
	case state.Phase < migrate.NewOnly && !old:
		return &MovedError{"a migration is under way; until it has finished the installation is started with its old settings, which know of the new ones"}
	case state.Phase == migrate.NewOnly && !fresh:
		return &MovedError{"this installation has moved: start it with " + newSettings(to, state.Contents)}
	}
	return nil
}

// newSettings says how an installation is started that has moved.
func newSettings(db, contents string) string {
	var all []string
	switch {
	case strings.Contains(db, "://"):
		all = append(all, "--db", db)
	case db != "":
		all = append(all, "--data", filepath.Dir(db), "and without --db")
	}
	for i, where := range strings.Fields(config.Shown(contents)) {
		all = append(all, []string{"--blobs", "--redis"}[min(i, 1)], where)
	}
	return strings.Join(all, " ") + " (passwords are not shown)"
}

// atNewContents reports whether the configured place of contents is the one that they move to.
func (m *mover) atNewContents(state migrate.State) bool {
	to, err := config.ParseContents(state.Contents, os.Environ())
	return err == nil && state.Contents != "" && to.Same(contentsPlace(m.cfg))
}

// leavesContents reports whether contents are on their way from the configured place.
func (m *mover) leavesContents(state migrate.State) bool {
	return state.ID != "" && state.Contents != "" && state.Phase >= migrate.Fill && !m.atNewContents(state)
}

// openSecond opens where contents move to. Before the new side leads, what does not answer is
// waited for in the background.
func (m *mover) openSecond(ctx context.Context, state migrate.State) error {
	to, err := config.ParseContents(state.Contents, os.Environ())
	if err != nil {
		return fmt.Errorf("where contents move to: %w", err)
	}
	err = startAll(ctx, []component{{"new place of contents", func(ctx context.Context) error {
		if err := m.openSecondPlace(ctx, state, to); err != nil {
			return err
		}
		return m.second.check(ctx)
	}}}, m.cfg.StartWait, m.log)
	if err != nil && drive.IsKind(err, drive.Unavailable) && !state.Switched {
		m.log.WarnContext(ctx, "the new place of contents does not answer; copying waits for it", "error", err)
		err = nil
	}
	return err
}

// marksOf keeps the mark on both sides; the one that leads says what is true.
func (m *mover) marksOf(state migrate.State) marks {
	first, second := m.first, m.second
	failed := func(err error) {
		m.log.Warn("the mark beside contents was not written on the side that follows", "error", err)
	}
	switch {
	case second == nil:
		return first
	case state.Switched:
		return twoMarks{second.marks, first, failed}
	default:
		return twoMarks{first, second.marks, failed}
	}
}

// take takes part in moves as an instance of an installation. It returns what everybody uses for
// bytes: the configured place, and the one that contents move to.
func (m *mover) take(in Installation, member *instance.Member, bytes storage) storage {
	m.Installation, m.member = in, member
	m.pair = contents.NewPair(contents.Side{
		Name: showContents(contentsPlace(m.cfg)), Store: bytes.store, Staging: bytes.staging, Quarantine: bytes.quarantine,
	})
	m.copier = contents.NewCopier(contents.Options{
		DB: m.db, Pair: m.pair, State: m.rows.State, Log: m.log,
		Drop: contents.Drop{Open: m.openOld, Ready: m.rows.DropReady, Note: m.rows.NoteContents},
	})
	m.rows.Join(migrate.Party{Member: member, Contents: m.copier, Ready: m.ready, Beside: m.moveContents, Arrived: func(ctx context.Context) error { return m.arm(ctx) }})
	m.align(m.rows.State())
	return storage{store: m.pair.Blobs, staging: m.pair.Uploads, quarantine: m.pair.Quarantine, close: bytes.close}
}

// align makes what is open what the move wants. The second place is open already.
func (m *mover) align(state migrate.State) {
	_, both := m.pair.Attached()
	switch {
	case !m.leavesContents(state):
		if both {
			m.pair.Detach()
		}
		return
	case m.second == nil:
		return
	case !both:
		m.pair.Attach(m.second.side)
	}
	if state.Phase == migrate.NewOnly {
		m.pair.Leave()
		return
	}
	lead, percent := contents.First, 0
	if state.Switched {
		lead = contents.Second
	}
	if state.Phase == migrate.ReadNew {
		percent = state.Percent
	}
	m.pair.Lead(lead)
	m.pair.Read(percent)
}

// moveContents is what this process does for contents while something moves: it keeps open what the
// move wants, and copies if it is the one that does. What is not wanted any more at the end is let
// go.
func (m *mover) moveContents(ctx context.Context) {
	var jobs sync.WaitGroup
	jobs.Go(func() { m.follow(ctx) })
	jobs.Go(func() {
		if err := m.member.Lead(ctx, leaseContents, m.copier.Run); err != nil {
			m.log.WarnContext(ctx, "the copying of contents ended", "error", err)
		}
	})
	jobs.Wait()
	if state := m.rows.State(); state.ID == "" {
		if err := m.followOnce(ctx, state); err != nil {
			m.log.WarnContext(ctx, "the new place of contents", "error", err)
		}
	}
}

// follow keeps what this process has open as the move wants it, until ctx is done.
func (m *mover) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var last attempt
	for {
		if state := m.rows.State(); !m.isDone(state) && !last.tooSoon(state, time.Now()) {
			if err := m.followOnce(ctx, state); err != nil {
				m.log.WarnContext(ctx, "the new place of contents", "error", err)
				last = attempt{state, time.Now()}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// attempt is one to open what a state wants that has failed.
type attempt struct {
	state migrate.State
	at    time.Time
}

// tooSoon reports whether the same was tried a moment ago. What another state wants may be
// something else.
func (a attempt) tooSoon(state migrate.State, now time.Time) bool {
	return a.state == state && now.Sub(a.at) < followAgain
}

// ready says what this process has not opened yet that a state of the move wants; nil: it acts by
// it. It waits for nothing: follow opens.
func (m *mover) ready(state migrate.State) error {
	if state.Phase == migrate.NewOnly && m.leavesContents(state) {
		return errors.New("it was started with the old settings")
	}
	m.known.Lock()
	defer m.known.Unlock()
	switch {
	case m.done.ID == state.ID && m.done.Epoch == state.Epoch || !m.leavesContents(state):
		return nil
	case m.failed != "":
		return errors.New("the new place of contents: " + m.failed)
	}
	return errors.New("the new place of contents is being opened")
}

func (m *mover) isDone(state migrate.State) bool {
	m.known.Lock()
	defer m.known.Unlock()
	return m.done == state
}

// followOnce makes what is open what a state wants, and remembers how that went.
func (m *mover) followOnce(ctx context.Context, state migrate.State) error {
	err := m.openAndAlign(ctx, state)
	m.known.Lock()
	defer m.known.Unlock()
	if err != nil {
		m.failed = err.Error()
		return err
	}
	m.done, m.failed = state, ""
	return nil
}

// openAndAlign opens what is missing, marks it, and lets the pair know. What is left is closed with
// the process: somebody may still read from it.
func (m *mover) openAndAlign(ctx context.Context, state migrate.State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leavesContents(state) {
		if err := m.openFollowing(ctx, state); err != nil {
			return err
		}
	}
	m.align(state)
	if m.second != nil && !m.leavesContents(state) {
		m.closeSecond()
	}
	return nil
}

// closeSecond lets go of the new place; what still reads from it may end.
func (m *mover) closeSecond() {
	if m.second == nil {
		return
	}
	if _, both := m.pair.Attached(); both {
		m.pair.Detach()
	}
	m.closed = append(m.closed, m.second.close)
	m.second = nil
}

func (m *mover) openFollowing(ctx context.Context, state migrate.State) error {
	to, err := config.ParseContents(state.Contents, os.Environ())
	if err != nil {
		return err
	}
	if err := m.openSecondPlace(ctx, state, to); err != nil {
		return err
	}
	if err := m.second.check(ctx); err != nil {
		return err
	}
	for _, at := range []marks{m.second.marks, m.first} {
		if err := at.WriteMark(ctx, blob.Mark{ID: m.ID, Generation: m.Generation}); err != nil {
			return err
		}
	}
	marked, err := meta.Find(ctx, m.db, metaSecond)
	if err != nil || marked == state.ID || to.S3 != nil {
		return err
	}
	return m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Set(ctx, tx, metaSecond, state.ID) })
}

// openSecondPlace opens the new place of contents, unless it is open. A directory that has had the
// mark and is without it now is one whose disk is not mounted: it is waited for, and nothing is
// made in its stead.
func (m *mover) openSecondPlace(ctx context.Context, state migrate.State, to config.Contents) error {
	if m.second != nil && m.at == state.Contents {
		return nil
	}
	m.closeSecond() // of a move that was given up
	marked, err := meta.Find(ctx, m.db, metaSecond)
	if err != nil {
		return err
	}
	if marked == state.ID && to.S3 == nil {
		if _, found, err := directory(to.Dir).ReadMark(ctx); err != nil || !found {
			return drive.Wrap(errors.Join(err, unmarked(to)), drive.Unavailable)
		}
	}
	p, err := m.openContents(ctx, to)
	if err == nil {
		m.second, m.at = &p, state.Contents
	}
	return err
}

// openOld opens the place that contents have left, to remove them. Without this installation's mark
// it may be another directory of the same name, on another machine.
func (m *mover) openOld(ctx context.Context, text string) (contents.Old, error) {
	if m.Restored {
		return contents.Old{}, drive.Wrap(errors.New("the installation was restored from a backup, and nothing is removed until \"admin fsck\" finds nothing"), drive.WrongState)
	}
	at, err := config.ParseContents(text, os.Environ())
	if err != nil {
		return contents.Old{}, drive.Wrap(fmt.Errorf("the old place of contents: %w", err), drive.WrongState)
	}
	if at.S3 == nil {
		switch mark, found, err := directory(at.Dir).ReadMark(ctx); {
		case err != nil:
			return contents.Old{}, err
		case !found || mark.ID != m.ID: // asked before it is opened, which would make it
			return contents.Old{}, unmarked(at)
		}
	}
	p, err := m.openContents(ctx, at)
	if err != nil {
		return contents.Old{}, err
	}
	err = p.check(ctx)
	if err == nil && at.S3 != nil {
		var mark blob.Mark
		var found bool
		if mark, found, err = p.marks.ReadMark(ctx); err == nil && (!found || mark.ID != m.ID) {
			err = unmarked(at)
		}
	}
	if err != nil {
		return contents.Old{}, errors.Join(err, p.close())
	}
	return contents.Old{Side: p.side, Close: p.close}, nil
}

func unmarked(at config.Contents) error {
	return drive.Wrap(fmt.Errorf("%s does not have the mark of this installation; is it on another machine, or not mounted?", showContents(at)), drive.WrongState)
}

// close closes what was opened for the move.
func (m *mover) close() error {
	var errs []error
	if m.second != nil {
		m.closed = append(m.closed, m.second.close)
	}
	for _, end := range m.closed {
		errs = append(errs, end())
	}
	m.second, m.closed = nil, nil
	if m.rows != nil {
		errs = append(errs, m.rows.Close())
	}
	return errors.Join(errs...)
}
