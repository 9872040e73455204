package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/move/contents"
	"smartdrive/internal/move/migrate"
)

// moving is an installation on its way to another place. What it is doing is in the database; this is what the process has open for it.
type moving struct {
	rows   *migrate.Migration
	copier *contents.Copier
	pair   *contents.Pair

	steps sync.Mutex // held while an administrator's step is taken; before mu

	mu     sync.Mutex // held while a second place is opened
	second *place     // nil: contents do not move
	closed []func() error

	known  sync.Mutex    // guards what follows
	done   migrate.State // what everything that is open is as it wants it
	failed string        // why it is not as a later one wants it
}

const (
	leaseContents = "contents"
	followEvery   = 100 * time.Millisecond // how often a process compares what it has open with where the move stands
)

// takeUp finds out whether the installation is moving, and lets the database's handle go to the side that is the truth. It comes before
// anything else is read.
func (a *App) takeUp(ctx context.Context) error {
	mv := &a.moving
	a.firstMarks = a.marks
	mv.rows = migrate.New(migrate.Options{
		DB: a.db, Here: a.databasePlace(), Open: a.openDatabase, Show: config.Shown, Contents: lateContents{mv}, Ready: a.ready,
		Beside: a.moveContents, Keep: a.cfg.MigrationKeep, Kept: func() time.Time { return a.kept.Now() }, Log: a.log,
	})
	if err := mv.rows.Restore(ctx); err != nil {
		return err
	}
	state := mv.rows.State()
	if err := a.rightSettings(state); err != nil {
		return err
	}
	if a.leavesContents(state) {
		return a.openSecond(ctx, state)
	}
	return nil
}

// lateContents is the copier, which is made once the installation is known.
type lateContents struct{ mv *moving }

// Progress implements migrate.Contents.
func (l lateContents) Progress(ctx context.Context) (migrate.ContentsProgress, error) {
	return l.mv.copier.Progress(ctx)
}

// Gate implements migrate.Contents.
func (l lateContents) Gate(ctx context.Context, to migrate.Phase) ([]migrate.Gate, error) {
	return l.mv.copier.Gate(ctx, to)
}

// GateDrop implements migrate.Contents.
func (l lateContents) GateDrop(ctx context.Context) ([]migrate.Gate, error) {
	return l.mv.copier.GateDrop(ctx)
}

// MovedError says that this start has the settings of a side that is not to be started now. Nothing was changed.
type MovedError struct{ Want string }

func (e *MovedError) Error() string { return e.Want }

// rightSettings refuses a start with the settings of the new side before the migration has finished, and with those of the old one after
// it has: each would serve a part of what there is.
func (a *App) rightSettings(state migrate.State) error {
	if state.ID == "" {
		return nil
	}
	to := a.moving.rows.Target()
	rowsMove, newRows, newContents := to != "", state.Mine, a.atNewContents(state)
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
func (a *App) atNewContents(state migrate.State) bool {
	to, err := config.ParseContents(state.Contents, os.Environ())
	return err == nil && state.Contents != "" && to.Same(a.contentsPlace())
}

// leavesContents reports whether contents are on their way from the configured place.
func (a *App) leavesContents(state migrate.State) bool {
	return state.ID != "" && state.Contents != "" && state.Phase >= migrate.Fill && !a.atNewContents(state)
}

// openSecond opens where contents move to. Before the new side leads, what does not answer is waited for in the background.
func (a *App) openSecond(ctx context.Context, state migrate.State) error {
	to, err := config.ParseContents(state.Contents, os.Environ())
	if err != nil {
		return fmt.Errorf("where contents move to: %w", err)
	}
	mv := &a.moving
	err = startAll(ctx, []component{{"new place of contents", func(ctx context.Context) error {
		if err := a.openSecondPlace(ctx, state, to); err != nil {
			return err
		}
		return mv.second.check(ctx)
	}}}, a.cfg.StartWait, a.log)
	if err != nil && drive.IsKind(err, drive.Unavailable) && !state.Switched {
		a.log.WarnContext(ctx, "the new place of contents does not answer; copying waits for it", "error", err)
		err = nil
	}
	if err == nil {
		a.marks = a.marksOf(state)
	}
	return err
}

// marksOf keeps the mark on both sides; the one that leads says what is true.
func (a *App) marksOf(state migrate.State) marks {
	first, second := a.firstMarks, a.moving.second
	failed := func(err error) {
		a.log.Warn("the mark beside contents was not written on the side that follows", "error", err)
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

// openPair puts the pair over the configured place, and over the one that contents move to.
func (a *App) openPair() {
	mv := &a.moving
	first := contents.Side{Name: showContents(a.contentsPlace()), Store: a.bytes.store, Staging: a.bytes.staging, Quarantine: a.bytes.quarantine}
	mv.pair = contents.NewPair(first)
	a.bytes.store, a.bytes.staging, a.bytes.quarantine = mv.pair.Blobs, mv.pair.Uploads, mv.pair.Quarantine
	mv.copier = contents.NewCopier(contents.Options{
		DB: a.db, Pair: mv.pair, State: mv.rows.State, Log: a.log,
		Drop: contents.Drop{Open: a.openOld, Ready: mv.rows.DropReady, Note: mv.rows.NoteContents},
	})
	mv.rows.Join(a.member)
	a.align(mv.rows.State())
}

// align makes what is open what the move wants. The second place is open already.
func (a *App) align(state migrate.State) {
	mv := &a.moving
	_, both := mv.pair.Attached()
	switch {
	case !a.leavesContents(state):
		if both {
			mv.pair.Detach()
		}
		return
	case mv.second == nil:
		return
	case !both:
		mv.pair.Attach(mv.second.side)
	}
	lead, percent := contents.First, 0
	if state.Switched {
		lead = contents.Second
	}
	if state.Phase == migrate.ReadNew {
		percent = state.Percent
	}
	mv.pair.Lead(lead)
	mv.pair.Read(percent)
}

// moveContents is what this process does for contents while something moves: it keeps open what the move
// wants, and copies if it is the one that does. What is not wanted any more at the end is let go.
func (a *App) moveContents(ctx context.Context) {
	var jobs sync.WaitGroup
	jobs.Go(func() { a.follow(ctx) })
	jobs.Go(func() {
		if err := a.member.Lead(ctx, leaseContents, a.moving.copier.Run); err != nil {
			a.log.WarnContext(ctx, "the copying of contents ended", "error", err)
		}
	})
	jobs.Wait()
	if state := a.moving.rows.State(); state.ID == "" {
		if err := a.followOnce(ctx, state); err != nil {
			a.log.WarnContext(ctx, "the new place of contents", "error", err)
		}
	}
}

// follow keeps what this process has open as the move wants it, until ctx is done.
func (a *App) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	mv := &a.moving
	for {
		if state := mv.rows.State(); !mv.isDone(state) {
			if err := a.followOnce(ctx, state); err != nil {
				a.log.WarnContext(ctx, "the new place of contents", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ready says what this process has not opened yet that a state of the move wants; nil: it acts by it. It waits for nothing: follow opens.
func (a *App) ready(state migrate.State) error {
	mv := &a.moving
	if state.Dropping && a.leavesContents(state) {
		return errors.New("it was started with the old settings")
	}
	mv.known.Lock()
	defer mv.known.Unlock()
	switch {
	case mv.done.ID == state.ID && mv.done.Epoch == state.Epoch || !a.leavesContents(state):
		return nil
	case mv.failed != "":
		return errors.New("the new place of contents: " + mv.failed)
	}
	return errors.New("the new place of contents is being opened")
}

func (mv *moving) isDone(state migrate.State) bool {
	mv.known.Lock()
	defer mv.known.Unlock()
	return mv.done == state
}

// followOnce makes what is open what a state wants, and remembers how that went.
func (a *App) followOnce(ctx context.Context, state migrate.State) error {
	mv := &a.moving
	err := a.openAndAlign(ctx, state)
	mv.known.Lock()
	defer mv.known.Unlock()
	if err != nil {
		mv.failed = err.Error()
		return err
	}
	mv.done, mv.failed = state, ""
	return nil
}

// openAndAlign opens what is missing, marks it, and lets the pair know. What is left is closed with the process: somebody may still
// read from it.
func (a *App) openAndAlign(ctx context.Context, state migrate.State) error {
	mv := &a.moving
	mv.mu.Lock()
	defer mv.mu.Unlock()
	if a.leavesContents(state) {
		if err := a.openFollowing(ctx, state); err != nil {
			return err
		}
	}
	a.align(state)
	if mv.second != nil && !a.leavesContents(state) {
		mv.closed = append(mv.closed, mv.second.close)
		mv.second = nil
	}
	return nil
}

func (a *App) openFollowing(ctx context.Context, state migrate.State) error {
	mv := &a.moving
	to, err := config.ParseContents(state.Contents, os.Environ())
	if err != nil {
		return err
	}
	if err := a.openSecondPlace(ctx, state, to); err != nil {
		return err
	}
	if err := mv.second.check(ctx); err != nil {
		return err
	}
	for _, at := range []marks{mv.second.marks, a.firstMarks} {
		if err := at.WriteMark(ctx, blob.Mark{ID: a.ID, Generation: a.Generation}); err != nil {
			return err
		}
	}
	marked, err := getMeta(ctx, a.db, metaSecond)
	if err != nil || marked == state.ID || to.S3 != nil {
		return err
	}
	return a.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return setMeta(ctx, tx, metaSecond, state.ID) })
}

// openSecondPlace opens the new place of contents, unless it is open. A directory that has had the
// mark and is without it now is one whose disk is not mounted: it is waited for, and nothing is
// made in its stead.
func (a *App) openSecondPlace(ctx context.Context, state migrate.State, to config.Contents) error {
	mv := &a.moving
	if mv.second != nil {
		return nil
	}
	marked, err := getMeta(ctx, a.db, metaSecond)
	if err != nil {
		return err
	}
	if marked == state.ID && to.S3 == nil {
		if _, found, err := directory(to.Dir).ReadMark(ctx); err != nil || !found {
			return drive.Wrap(errors.Join(err, unmarked(to)), drive.Unavailable)
		}
	}
	p, err := a.openContents(ctx, to)
	if err == nil {
		mv.second = &p
	}
	return err
}

// openOld opens the place that contents have left, to remove them. Without this installation's mark it may be another directory of the
// same name, on another machine.
func (a *App) openOld(ctx context.Context, text string) (contents.Old, error) {
	if a.Restored {
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
		case !found || mark.ID != a.ID: // asked before it is opened, which would make it
			return contents.Old{}, unmarked(at)
		}
	}
	p, err := a.openContents(ctx, at)
	if err != nil {
		return contents.Old{}, err
	}
	err = p.check(ctx)
	if err == nil && at.S3 != nil {
		var mark blob.Mark
		var found bool
		if mark, found, err = p.marks.ReadMark(ctx); err == nil && (!found || mark.ID != a.ID) {
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
func (mv *moving) close() error {
	var errs []error
	if mv.second != nil {
		mv.closed = append(mv.closed, mv.second.close)
	}
	for _, end := range mv.closed {
		errs = append(errs, end())
	}
	mv.second, mv.closed = nil, nil
	if mv.rows != nil {
		errs = append(errs, mv.rows.Close())
	}
	return errors.Join(errs...)
}
