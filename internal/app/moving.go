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

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/move/contents"
	"example.org/smartdrive/internal/move/migrate"
)

// mover migrates an installation to other engines. The state of the migration is in the database;
// mover holds what this process has opened for it.
type mover struct {
	Installation // set when identified
	cfg          config.Config
	log          *slog.Logger
	db           *sqldb.DB
	first        markStore // marks of the configured store of contents
	rows         *migrate.Migration
	member       *instance.Member
	copier       *contents.Copier
	pair         *contents.Pair
	modules      *modules

	steps sync.Mutex // held during an administrator's step; acquired before mu

	mu         sync.Mutex // held while the second store is opened
	second     *location  // nil: contents do not migrate
	secondText string     // State.Contents for which second was opened
	// closed are functions to be run by close.
	closed []func() error

	stateMu sync.Mutex    // guards the fields below
	applied migrate.State // last state that everything open conforms to
	failed  string        // why a later state could not be applied; "" if it could
}

const (
	// leaseContents names the lease held by the instance that copies contents.
	leaseContents = "contents"
	followEvery   = 100 * time.Millisecond // interval of comparing what is open with the state of the migration
	followAgain   = 2 * time.Second        // retry interval after a failed opening
)

// newMover returns a mover without doing I/O. kept is the retention clock; l are the modules that
// learn of the end of a migration.
func newMover(cfg config.Config, log *slog.Logger, db *sqldb.DB, kept func() time.Time, l *modules) *mover {
	m := &mover{cfg: cfg, log: log, db: db, modules: l}
	m.rows = migrate.New(migrate.Options{
		DB: db, Here: databaseLocation(cfg), Open: m.openDatabase, Show: config.RedactLocation, RetainOld: cfg.MigrationKeep, RetentionClock: kept, Log: log,
	})
	return m
}

// restore loads the state of a migration and makes the database handle use the database that leads,
// the old or the new one. It must run before anything else is read. first holds the installation's
// mark in the configured store of contents; restore returns the marks to use. It fails with
// *MovedError for the wrong settings.
func (m *mover) restore(ctx context.Context, first markStore) (markStore, error) {
	m.first = first
	if err := m.rows.Restore(ctx); err != nil {
		return nil, err
	}
	state := m.rows.State()
	if err := m.checkSettings(state); err != nil {
		return nil, err
	}
	if m.leavesContents(state) {
		if err := m.openNewContents(ctx, state); err != nil {
			return nil, err
		}
	}
	return m.marksOf(state), nil
}

// MovedError reports that a server must not be started with these settings: they name the new
// engines of a migration that has not finished, or the old ones after it has. Nothing was changed.
// Want is the message: which settings to start with instead.
type MovedError struct{ Want string }

func (e *MovedError) Error() string { return e.Want }

// checkSettings fails with *MovedError for settings that name the new engines before the migration
// has finished, and for those that name the old ones afterwards. Either would serve only a part of
// the data. Without a migration it returns nil.
func (m *mover) checkSettings(state migrate.State) error {
	if state.ID == "" {
		return nil
	}
	to := m.rows.Target()
	rowsMove, newRows, newContents := to != "", state.StartedOnNew, m.atNewContents(state)
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

// newSettings returns the flags with which an installation is started after a migration to db and
// contents, as a text for people, without passwords. An empty db or contents is left out.
func newSettings(db, contents string) string {
	var all []string
	switch {
	case strings.Contains(db, "://"):
		all = append(all, "--db", db)
	case db != "":
		all = append(all, "--data", filepath.Dir(db), "and without --db")
	}
	for i, where := range strings.Fields(config.RedactLocation(contents)) {
		all = append(all, []string{"--blobs", "--redis"}[min(i, 1)], where)
	}
	return strings.Join(all, " ") + " (passwords are not shown)"
}

// atNewContents reports whether the configured store of contents is the target of the migration.
func (m *mover) atNewContents(state migrate.State) bool {
	to, err := config.ParseBlobLocation(state.Contents, os.Environ())
	return err == nil && state.Contents != "" && to.Same(contentsLocation(m.cfg))
}

// leavesContents reports whether contents are migrating away from the configured store, from phase
// Fill on. False if this instance is configured with the new store already.
func (m *mover) leavesContents(state migrate.State) bool {
	return state.ID != "" && state.Contents != "" && state.Phase >= migrate.Fill && !m.atNewContents(state)
}

// openNewContents opens the new store of contents at a start. Before the new side leads, an
// unreachable store is retried in the background. It fails with the error of opening in all other
// cases.
func (m *mover) openNewContents(ctx context.Context, state migrate.State) error {
	to, err := config.ParseBlobLocation(state.Contents, os.Environ())
	if err != nil {
		return fmt.Errorf("where contents move to: %w", err)
	}
	err = startAll(ctx, []component{{"new place of contents", func(ctx context.Context) error {
		if err := m.openNewStore(ctx, state, to); err != nil {
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

// marksOf returns the marks to use: those of the configured store, or of both stores while the
// second is open. A mark is read from the store that leads and written to both.
func (m *mover) marksOf(state migrate.State) markStore {
	first, second := m.first, m.second
	failed := func(err error) {
		m.log.Warn("the installation's mark could not be written to the following store; it is written again before that store leads", "error", err)
	}
	switch {
	case second == nil:
		return first
	case state.Switched:
		return mirroredMarks{second.marks, first, failed}
	default:
		return mirroredMarks{first, second.marks, failed}
	}
}

// join makes this instance take part in migrations, from the present state on. It returns the
// storage to use in place of bytes: it passes calls to the configured store and, during a migration
// of contents, to the new one. restore must have run.
func (m *mover) join(in Installation, member *instance.Member, bytes storage) storage {
	m.Installation, m.member = in, member
	m.pair = contents.NewPair(contents.Side{
		Name: showContents(contentsLocation(m.cfg)), Store: bytes.store, Staging: bytes.staging, Quarantine: bytes.quarantine,
	})
	m.copier = contents.NewCopier(contents.Options{
		DB: m.db, Pair: m.pair, State: m.rows.State, Log: m.log,
		Drop: contents.DropOptions{Open: m.openOld, Ready: m.rows.DropReady, Note: m.rows.NoteContents},
	})
	m.rows.SetParty(migrate.Party{Member: member, Contents: m.copier, Ready: m.ready, Background: m.moveContents, OnArrived: m.modules.migrated})
	m.applyState(m.rows.State())
	return storage{store: m.pair.Blobs, staging: m.pair.Uploads, quarantine: m.pair.Quarantine, close: bytes.close}
}

// applyState makes the pair of stores read and write as the state of the migration demands. It
// opens nothing: without an open second store it changes nothing. The caller holds m.mu, or runs
// before follow.
func (m *mover) applyState(state migrate.State) {
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
		m.pair.DropFirst()
		return
	}
	lead, percent := contents.First, 0
	if state.Switched {
		lead = contents.Second
	}
	if state.Phase == migrate.ReadNew {
		percent = state.Percent
	}
	m.pair.SetLeader(lead)
	m.pair.SetReadPercent(percent)
}

// moveContents runs while a migration runs, until ctx is done. It keeps the stores open that the
// migration needs and copies contents while this instance holds the lease. When the migration has
// ended, it closes the store that is not needed any more.
func (m *mover) moveContents(ctx context.Context) {
	var jobs sync.WaitGroup
	jobs.Go(func() { m.follow(ctx) })
	jobs.Go(func() {
		if err := m.member.Lead(ctx, leaseContents, m.copier.Run); err != nil {
			m.log.WarnContext(ctx, "copying of contents stopped in this instance", "error", err)
		}
	})
	jobs.Wait()
	if state := m.rows.State(); state.ID == "" {
		if err := m.followOnce(ctx, state); err != nil {
			m.log.WarnContext(ctx, "the new store of contents could not be closed after the migration", "error", err)
		}
	}
}

// follow applies the state of the migration to this process until ctx is done.
func (m *mover) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var last attempt
	for {
		if state := m.rows.State(); !m.isApplied(state) && !last.tooSoon(state, time.Now()) {
			if err := m.followOnce(ctx, state); err != nil {
				m.log.WarnContext(ctx, "the new store of contents could not be opened; the migration waits for it", "error", err)
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

// attempt is a failed try to apply a state.
type attempt struct {
	state migrate.State
	at    time.Time
}

// tooSoon reports whether the attempt failed for this very state less than followAgain ago.
func (a attempt) tooSoon(state migrate.State, now time.Time) bool {
	return a.state == state && now.Sub(a.at) < followAgain
}

// ready returns nil if this process uses the stores that a state of the migration demands, else an
// error that says why not. It does not block; follow opens what is missing in the background.
func (m *mover) ready(state migrate.State) error {
	if state.Phase == migrate.NewOnly && m.leavesContents(state) {
		return errors.New("it was started with the old settings")
	}
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	switch {
	case m.applied.ID == state.ID && m.applied.Epoch == state.Epoch || !m.leavesContents(state):
		return nil
	case m.failed != "":
		return errors.New("the new place of contents: " + m.failed)
	}
	return errors.New("the new place of contents is being opened")
}

// isApplied reports whether the last state that this instance applied without an error equals
// state. It acquires stateMu.
func (m *mover) isApplied(state migrate.State) bool {
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	return m.applied == state
}

// followOnce opens what the state needs and records the result for ready: the state as applied, or
// the error's text. It acquires stateMu.
func (m *mover) followOnce(ctx context.Context, state migrate.State) error {
	err := m.openAndAlign(ctx, state)
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	if err != nil {
		m.failed = err.Error()
		return err
	}
	m.applied, m.failed = state, ""
	return nil
}

// openAndAlign opens what a state needs, marks it and sets the pair. What is not needed any more is
// closed at the end of the process, since a reader may still use it. It acquires mu. It fails if
// the new store cannot be opened or marked.
func (m *mover) openAndAlign(ctx context.Context, state migrate.State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leavesContents(state) {
		if err := m.openFollowing(ctx, state); err != nil {
			return err
		}
	}
	m.applyState(state)
	if m.second != nil && !m.leavesContents(state) {
		m.closeSecond()
	}
	return nil
}

// closeSecond stops using the second store and sets m.second to nil; without one it does nothing.
// The store is closed at the end of the process, because readers may still use it. The caller holds
// m.mu or runs alone.
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

// openFollowing opens the new store, checks it, and writes the installation's mark to it and to the
// first store. For a directory it records that the mark was written, so that a later missing mark
// is an error.
func (m *mover) openFollowing(ctx context.Context, state migrate.State) error {
	to, err := config.ParseBlobLocation(state.Contents, os.Environ())
	if err != nil {
		return err
	}
	if err := m.openNewStore(ctx, state, to); err != nil {
		return err
	}
	if err := m.second.check(ctx); err != nil {
		return err
	}
	for _, at := range []markStore{m.second.marks, m.first} {
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

// openNewStore opens the new store of contents as m.second, unless it is open. A directory that had
// the mark of this migration and lacks it now is probably not mounted: openNewStore then fails with
// Unavailable and creates nothing. The caller holds m.mu or runs alone.
func (m *mover) openNewStore(ctx context.Context, state migrate.State, to config.BlobLocation) error {
	if m.second != nil && m.secondText == state.Contents {
		return nil
	}
	m.closeSecond() // of a migration that was given up
	marked, err := meta.Find(ctx, m.db, metaSecond)
	if err != nil {
		return err
	}
	if marked == state.ID && to.S3 == nil {
		if _, found, err := directoryMarks(to.Dir).ReadMark(ctx); err != nil || !found {
			return drive.Wrap(errors.Join(err, errUnmarked(to)), drive.Unavailable)
		}
	}
	p, err := m.openContents(ctx, to)
	if err == nil {
		m.second, m.secondText = &p, state.Contents
	}
	return err
}

// openOld opens the store that contents have left, to delete them. It fails if the store lacks this
// installation's mark, because it may be another directory of the same name on another machine.
func (m *mover) openOld(ctx context.Context, text string) (contents.OldPlace, error) {
	if m.Restored {
		return contents.OldPlace{}, drive.Wrap(errors.New("the installation was restored from a backup, and nothing is removed until \"admin fsck\" finds nothing"), drive.WrongState)
	}
	at, err := config.ParseBlobLocation(text, os.Environ())
	if err != nil {
		return contents.OldPlace{}, drive.Wrap(fmt.Errorf("the old place of contents: %w", err), drive.WrongState)
	}
	if at.S3 == nil {
		switch mark, found, err := directoryMarks(at.Dir).ReadMark(ctx); {
		case err != nil:
			return contents.OldPlace{}, err
		case !found || mark.ID != m.ID: // checked before opening, which would create it
			return contents.OldPlace{}, errUnmarked(at)
		}
	}
	p, err := m.openContents(ctx, at)
	if err != nil {
		return contents.OldPlace{}, err
	}
	err = p.check(ctx)
	if err == nil && at.S3 != nil {
		var mark blob.Mark
		var found bool
		if mark, found, err = p.marks.ReadMark(ctx); err == nil && (!found || mark.ID != m.ID) {
			err = errUnmarked(at)
		}
	}
	if err != nil {
		return contents.OldPlace{}, errors.Join(err, p.close())
	}
	return contents.OldPlace{Side: p.side, Close: p.close}, nil
}

// errUnmarked returns a drive.WrongState error for a store without this installation's mark, such
// as a directory that is not mounted.
func errUnmarked(at config.BlobLocation) error {
	return drive.Wrap(fmt.Errorf("%s does not have the mark of this installation; is it on another machine, or not mounted?", showContents(at)), drive.WrongState)
}

// close closes everything that was opened for the migration and returns all failures joined. No
// call may be in flight.
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
