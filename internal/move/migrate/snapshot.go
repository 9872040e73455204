package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// snapshot is the migration as known to this process. It is immutable; a newer snapshot replaces
// it.
type snapshot struct {
	record             // row of the primary, or of the fenced side
	otherRecord record // row of the other side; zero: unknown or none
	primary     *Side  // the primary; nil: none during a switch
	other       *Side  // the secondary; nil: rows do not move, or it is unreachable or not the filled one
	otherDown   bool   // the other side could not be read
	otherError  string // why other is nil although rows move
	nearIsHome  bool   // record is the row of the configured side
	// at is the time before the rows were read.
	at time.Time
}

// sides holds the two sides of an installation that moves, and the current snapshot. It only reads
// the databases, and sets the router of the database handle.
type sides struct {
	opt         Options
	log         *slog.Logger
	router      sqldb.Router // router of the handle while something moves
	home        Side
	snapshot    atomic.Pointer[snapshot] // the current snapshot; nil: nothing moves
	cachedNotes atomic.Pointer[notes]    // notes of the primary as last read
	started     chan struct{}            // receives a token when a migration begins; read by Run

	mu          sync.Mutex  // held while both sides are read; guards the next fields
	away        *Side       // the other side; nil: not open
	awayPlace   string      // where away was opened
	obsolete    []*sqldb.DB // replaced databases that queries may still use
	refreshedAt time.Time   // start of the latest read of both sides
	refreshErr  error       // its error

	schemaMu sync.Mutex // guards the next fields
	tables   []*table   // in the common column order
	// tablesBySide holds the tables by side.
	tablesBySide map[*Side][]*table
}

// currentSnapshot returns the snapshot as last read, without I/O; nil if nothing moves or it was
// not read yet. Callers must not change it.
func (s *sides) currentSnapshot() *snapshot { return s.snapshot.Load() }

const (
	pollEvery   = 300 * time.Millisecond // poll interval during a migration
	idleWake    = time.Second            // interval of clock checks while idle
	idleEvery   = 5 * time.Second        // poll interval without a migration: the heartbeat interval of instances
	switchWait  = 10 * time.Second       // how long a request waits for a primary during a switch
	primaryPoll = 3 * time.Millisecond   // pause between two reads while waiting for a primary
)

// snapshotTimeout is how long a snapshot is valid without a refresh: many times pollEvery, but less
// than the time after which a silent instance counts as dead.
const snapshotTimeout = 5 * time.Second

// stale reports whether other instances may have continued without this process, because it slept
// or could not refresh. It also checks the wall clock, because the monotonic clock does not count
// the sleep of a machine.
func (v *snapshot) stale() bool {
	return time.Since(v.at) > snapshotTimeout || time.Since(v.at.Round(0)) > snapshotTimeout
}

// refresh reads both sides, sets the snapshot and returns it; nil, without an error, if nothing
// moves. On an error the snapshot is unchanged.
func (s *sides) refresh(ctx context.Context) (*snapshot, error) {
	return s.refreshSince(ctx, time.Time{})
}

// refreshSince returns the result, snapshot or error, of another refresh that began after since;
// without one it refreshes. The zero time always refreshes.
func (s *sides) refreshSince(ctx context.Context, since time.Time) (*snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !since.IsZero() && s.refreshedAt.After(since) {
		return s.currentSnapshot(), s.refreshErr
	}
	begun := time.Now()
	v, err := s.readSides(ctx)
	if ctx.Err() == nil { // otherwise the result is useless for other callers
		s.refreshedAt, s.refreshErr = begun, err
	}
	if err != nil {
		return nil, err
	}
	s.setSnapshot(v)
	return v, nil
}

// readSides reads the records of both sides and returns the snapshot of the migration, nil if there
// is none. If the home side cannot be read it returns what snapshotWithoutHome does. The caller
// holds mu.
func (s *sides) readSides(ctx context.Context) (*snapshot, error) {
	at := time.Now()
	home, err := readRecord(ctx, s.home.DB, "")
	if err != nil {
		return s.snapshotWithoutHome(ctx, at, err)
	}
	if home.Role != noRole { // a process with a snapshot may write bookkeeping rows
		if err := s.openHomeLocked(ctx); err != nil {
			return nil, err
		}
	}
	return s.snapshotOf(ctx, home, at)
}

// snapshotOf returns the snapshot for the row of the home side, read after at. It returns
// WrongState for contradictory sides.
func (s *sides) snapshotOf(ctx context.Context, home record, at time.Time) (*snapshot, error) {
	if home.Role == noRole {
		return nil, nil
	}
	if home.Peer == "" {
		return &snapshot{record: home, primary: &s.home, nearIsHome: true, at: at}, nil
	}
	away, err := s.openOtherLocked(ctx, home.Peer, false)
	if err != nil {
		if home.Role == primary { // the secondary catches up when it is reachable again
			return &snapshot{record: home, primary: &s.home, nearIsHome: true, otherDown: true, otherError: err.Error(), at: at}, nil
		}
		return nil, fmt.Errorf("open the other side: %w", err)
	}
	there, err := readRecord(ctx, away.DB, "")
	if err != nil && home.Role != primary {
		return nil, err
	}
	if there.Migration == home.Migration {
		if err := s.loadSchemas(ctx, &s.home, away); err != nil {
			return nil, err
		}
	}
	v := &snapshot{record: home, otherRecord: there, primary: &s.home, other: away, nearIsHome: true, otherDown: err != nil, at: at}
	switch {
	case home.Role == primary && there.Role == primary && there.Migration == home.Migration:
		return nil, errors.New("both sides say that they are the primary")
	case home.Role == primary:
		if there.Migration != home.Migration || there.Marker != home.Marker || there.Role == noRole {
			v.other, v.otherError = nil, "it is not the one that was filled"
			if err != nil {
				v.otherError = err.Error()
			}
		}
	case home.Role == retired && (there.Role == noRole || there.Role == retired):
		return nil, drive.Wrap(errors.New("this database was left for another, which does not know of it"), drive.WrongState)
	case there.Migration != home.Migration:
		return nil, drive.Wrap(fmt.Errorf("the other side is of another migration, %q", there.Migration), drive.WrongState)
	case there.Role == primary:
		v = &snapshot{record: there, otherRecord: home, primary: away, other: &s.home, at: at}
	case home.Role == fenced:
		v.primary = nil
	default:
		v = &snapshot{record: there, otherRecord: home, other: &s.home, at: at}
	}
	return v, nil
}

// snapshotWithoutHome returns a snapshot while the home side is unreachable and was not the
// primary. The other side is the primary if its row says so (M1), unless its epoch is older, which
// means that it was restored to an old state.
func (s *sides) snapshotWithoutHome(ctx context.Context, at time.Time, why error) (*snapshot, error) {
	last := s.currentSnapshot()
	if last == nil || last.nearIsHome || s.away == nil {
		return nil, why
	}
	there, err := readRecord(ctx, s.away.DB, "")
	if err != nil || there.Role != primary || there.Migration != last.Migration || there.Epoch < last.Epoch {
		return nil, errors.Join(why, err)
	}
	return &snapshot{record: there, primary: s.away, otherDown: true, otherError: why.Error(), at: at}, nil
}

// setSnapshot sets the snapshot of this process, nil if nothing moves, and sets or removes the
// router of the database handle accordingly.
func (s *sides) setSnapshot(v *snapshot) {
	last := s.snapshot.Swap(v)
	switch {
	case v == nil:
		s.opt.DB.Route(nil)
	case last == nil:
		s.opt.DB.Route(s.router)
		select {
		case s.started <- struct{}{}:
		default:
		}
	}
}

// openOtherLocked opens the database at as the other side, or returns the open one if it was opened
// at the same place last. fresh creates a missing SQLite file; without fresh a missing file is an
// error. mu must be held.
func (s *sides) openOtherLocked(ctx context.Context, at string, fresh bool) (*Side, error) {
	if s.away != nil && s.awayPlace == at {
		return s.away, nil
	}
	if s.away != nil {
		s.obsolete = append(s.obsolete, s.away.DB, s.away.Unchecked) // another goroutine may still read from it
		s.away = nil
	}
	side, err := s.open(ctx, at, fresh)
	if err != nil {
		return nil, err
	}
	s.away, s.awayPlace = side, at
	return side, nil
}

// open opens the side at, with and without foreign key checks. fresh creates the database. On an
// error nothing stays open; otherwise the caller closes the Side.
func (s *sides) open(ctx context.Context, at string, fresh bool) (*Side, error) {
	db, err := s.opt.Open(ctx, at, Opening{Create: fresh})
	if err != nil {
		return nil, err
	}
	unchecked, err := s.opt.Open(ctx, at, Opening{Unchecked: true})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Side{DB: db, Unchecked: unchecked}, nil
}

// waitPrimary waits until a side is primary, or returns Unavailable after the deadline. Concurrent
// callers share refreshes; otherwise each would wait for the refreshes of all others.
func (s *sides) waitPrimary(ctx context.Context, deadline time.Time) (*snapshot, error) {
	for {
		v, err := s.refreshSince(ctx, time.Now())
		if err == nil && (v == nil || v.primary != nil) {
			return v, nil
		}
		if time.Now().After(deadline) {
			return nil, drive.Wrap(errors.Join(errors.New("nobody is the primary"), err), drive.Unavailable)
		}
		if err := wait(ctx, primaryPoll); err != nil {
			return nil, err
		}
	}
}

// wait returns nil after d, or Unavailable if ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	case <-t.C:
		return nil
	}
}

// errMoved reports that a side is not the primary, or that the direction has changed.
var errMoved = errors.New("this side is not the primary any more")

// lockPrimary verifies in a transaction that its side is the primary, and locks the role until the
// transaction ends (M1). It must be the first statement. Otherwise it returns errMoved.
func lockPrimary(ctx context.Context, tx *sqldb.Tx, migration string) error {
	lock := "" // SQLite: the single writer excludes changes
	if tx.Dialect() == sqldb.MySQL {
		lock = " LOCK IN SHARE MODE" // MariaDB lacks FOR SHARE
	}
	var is role
	var id string
	err := tx.QueryRow(ctx, "SELECT role, migration FROM migration_side WHERE id = 1"+lock).Scan(&is, &id)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return err
	}
	if is != primary || id != migration {
		return errMoved
	}
	return nil
}

// openHome opens the home side a second time, without foreign key checks, for replicated rows,
// unless it is open. It acquires mu.
func (s *sides) openHome(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.openHomeLocked(ctx)
}

// openHomeLocked opens the home side a second time, without foreign key checks, for replicated
// rows, unless it is open. mu must be held.
func (s *sides) openHomeLocked(ctx context.Context) (err error) {
	if s.home.Unchecked == nil {
		s.home.Unchecked, err = s.opt.Open(ctx, s.opt.Here, Opening{Unchecked: true})
	}
	return err
}

// loadSchemas reads and caches the tables of both sides, unless they are cached. It returns
// WrongState with the difference if they differ.
func (s *sides) loadSchemas(ctx context.Context, one, other *Side) error {
	s.schemaMu.Lock()
	defer s.schemaMu.Unlock()
	if s.tablesBySide[one] != nil && s.tablesBySide[other] != nil {
		return nil
	}
	ours, err := schemaOf(ctx, one.DB)
	if err != nil {
		return err
	}
	theirs, err := schemaOf(ctx, other.DB)
	if err != nil {
		return err
	}
	if how := schemaDiff(ours, theirs); how != "" {
		return wrongState("the schemas differ: " + how)
	}
	s.tables = ours
	s.tablesBySide[one], s.tablesBySide[other] = ours, reorderColumns(ours, theirs)
	return nil
}

// tablesFor returns the tables of a side in the order common to both sides; nil if loadSchemas has
// not read them.
func (s *sides) tablesFor(side *Side) []*table {
	s.schemaMu.Lock()
	defer s.schemaMu.Unlock()
	return s.tablesBySide[side]
}

// tablesOf returns the table of that name as each of two sides has it. It fails if the migration
// has no such table. The schemas of both sides must be loaded.
func (s *sides) tablesOf(name string, from, to *Side) (source, target *table, err error) {
	s.schemaMu.Lock()
	defer s.schemaMu.Unlock()
	for i, t := range s.tables {
		if t.name == name {
			return s.tablesBySide[from][i], s.tablesBySide[to][i], nil
		}
	}
	return nil, nil, fmt.Errorf("a change of table %q, which is not there", name)
}

// openOther opens the database at as the other side, or returns the open one. fresh creates a
// missing SQLite file. It acquires mu.
func (s *sides) openOther(ctx context.Context, at string, fresh bool) (*Side, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.openOtherLocked(ctx, at, fresh)
}

// otherSide returns the other side; nil if it is not open.
func (s *sides) otherSide() *Side {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

// tablesOrLoad returns the tables of a side, even if the other side is gone.
func (s *sides) tablesOrLoad(ctx context.Context, side *Side) []*table {
	if tables := s.tablesFor(side); tables != nil {
		return tables
	}
	tables, err := schemaOf(ctx, side.DB)
	if err != nil {
		s.log.WarnContext(ctx, "the schema of one side of the migration could not be read; its triggers may remain", "error", err)
	}
	return tables
}

// loadNotes reads the pace, the old side's state and the named accounts from the primary of v and
// replaces the cached notes with them. On an error the cached notes stay.
func (s *sides) loadNotes(ctx context.Context, v *snapshot) error {
	n := &notes{}
	for name, into := range map[string]any{notePace: &n.pace, noteOld: &n.old, noteNamed: &n.named} {
		if err := readNote(ctx, v.primary.DB, name, into); err != nil {
			return err
		}
	}
	slices.Sort(n.named)
	s.cachedNotes.Store(n)
	return nil
}

// notes returns the notes as last read; never nil.
func (s *sides) notes() *notes {
	if n := s.cachedNotes.Load(); n != nil {
		return n
	}
	return &notes{}
}

// State returns the state of the migration as last read, without I/O; the zero State if nothing
// moves.
func (s *sides) State() State {
	v := s.currentSnapshot()
	if v == nil {
		return State{}
	}
	return s.stateOf(v)
}

// stateOf returns the State for a snapshot and the last read notes.
func (s *sides) stateOf(v *snapshot) State {
	n := s.notes()
	return State{
		ID: v.Migration, Phase: v.Phase, Epoch: v.Epoch, Percent: v.Percent, Paused: v.Paused, Contents: v.Contents,
		Switched: v.Phase >= WriteNew, Term: v.Term, StartedOnNew: v.nearIsHome == (v.Phase >= WriteNew),
		Pace: n.pace, Dropping: n.old.Dropping && v.Phase == NewOnly, OldContents: n.old.Contents, OldContentsDeleted: n.old.Blobs.Ended, VerifyPercent: n.old.Deep,
	}
}
