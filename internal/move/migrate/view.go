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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// view is what this process knows of the move. It never changes; a newer one takes its place.
type view struct {
	record        // of the primary, or of the side that is fenced
	far    record // of the other side; zero: not known, or there is none
	near   *Side  // the primary; nil: nobody is, just now
	other  *Side  // the secondary; nil: rows do not move, or it cannot be reached
	deaf   bool   // the other side could not be asked
	why    string // there is no secondary although there should be one
	home   bool   // near is the side that this process is configured for
	at     time.Time
}

// both are the two sides of an installation that moves, and what this process knows of where the
// move stands. It asks and changes nothing but the handle, which goes by it.
type both struct {
	opt    Options
	log    *slog.Logger
	router sqldb.Router // of the handle, while something moves
	home   Side
	now    atomic.Pointer[view]
	noted  atomic.Pointer[notes] // what the notes of the primary were when they were last read
	begun  chan struct{}         // holds one when something began to move; Run takes it

	looking   sync.Mutex // held while both sides are asked; guards what follows
	away      *Side
	awayPlace string
	closing   []*sqldb.DB
	lookedAt  time.Time // when the latest look at both sides began
	lookedErr error     // what came of it

	shape  sync.Mutex // guards what follows
	tables []*table   // in the column order that both sides' rows are handled in
	shaped map[*Side][]*table
}

// known is the view of now; nil: nothing moves.
func (b *both) known() *view { return b.now.Load() }

const (
	pollEvery  = 300 * time.Millisecond // how often a process asks where the move stands, while there is one
	idleWake   = time.Second            // how often it looks at the clock meanwhile
	idleEvery  = 5 * time.Second        // how often it asks whether there is one: as often as an instance says that it lives
	switchWait = 10 * time.Second       // that a request waits for somebody to become the primary
	lookAgain  = 3 * time.Millisecond
)

// staleTime is how long a view counts without having been looked at again: many times pollEvery,
// and less than the time after which an instance that is silent is not waited for any more.
const staleTime = 5 * time.Second

// stale reports whether others may have gone on without this process, which was asleep, or could
// not ask. A machine that slept has a monotonic clock that did not count it: the wall clock has its
// say, too.
func (v *view) stale() bool {
	return time.Since(v.at) > staleTime || time.Since(v.at.Round(0)) > staleTime
}

// refresh asks both sides. An error leaves what is known.
func (b *both) refresh(ctx context.Context) (*view, error) {
	return b.refreshed(ctx, time.Time{})
}

// refreshed is refresh, or what came of one by somebody else that began after since.
func (b *both) refreshed(ctx context.Context, since time.Time) (*view, error) {
	b.looking.Lock()
	defer b.looking.Unlock()
	if !since.IsZero() && b.lookedAt.After(since) {
		return b.known(), b.lookedErr
	}
	begun := time.Now()
	v, err := b.ask(ctx)
	if ctx.Err() == nil { // else it says nothing to others
		b.lookedAt, b.lookedErr = begun, err
	}
	if err != nil {
		return nil, err
	}
	b.take(v)
	return v, nil
}

func (b *both) ask(ctx context.Context) (*view, error) {
	at := time.Now()
	home, err := readRecord(ctx, b.home.DB, "")
	if err != nil {
		return b.withoutHome(ctx, at, err)
	}
	if home.Role != nobody { // whoever has a view may write the rows of the move
		if err := b.openHomeLocked(ctx); err != nil {
			return nil, err
		}
	}
	return b.viewOf(ctx, home, at)
}

// viewOf makes a view of the home side's row, which was read after at, and of the other side's.
func (b *both) viewOf(ctx context.Context, home record, at time.Time) (*view, error) {
	if home.Role == nobody {
		return nil, nil
	}
	if home.Peer == "" {
		return &view{record: home, near: &b.home, home: true, at: at}, nil
	}
	away, err := b.openAway(ctx, home.Peer, false)
	if err != nil {
		if home.Role == primary { // the other one follows when it is there again
			return &view{record: home, near: &b.home, home: true, deaf: true, why: err.Error(), at: at}, nil
		}
		return nil, fmt.Errorf("open the other side: %w", err)
	}
	there, err := readRecord(ctx, away.DB, "")
	if err != nil && home.Role != primary {
		return nil, err
	}
	if there.Migration == home.Migration {
		if err := b.learn(ctx, &b.home, away); err != nil {
			return nil, err
		}
	}
	v := &view{record: home, far: there, near: &b.home, other: away, home: true, deaf: err != nil, at: at}
	switch {
	case home.Role == primary && there.Role == primary && there.Migration == home.Migration:
		return nil, errors.New("both sides say that they are the primary")
	case home.Role == primary:
		if there.Migration != home.Migration || there.Marker != home.Marker || there.Role == nobody {
			v.other, v.why = nil, "it is not the one that was filled"
			if err != nil {
				v.why = err.Error()
			}
		}
	case home.Role == retired && (there.Role == nobody || there.Role == retired):
		return nil, drive.Wrap(errors.New("this database was left for another, which does not know of it"), drive.WrongState)
	case there.Migration != home.Migration:
		return nil, drive.Wrap(fmt.Errorf("the other side is of another migration, %q", there.Migration), drive.WrongState)
	case there.Role == primary:
		v = &view{record: there, far: home, near: away, other: &b.home, at: at}
	case home.Role == fenced:
		v.near = nil
	default:
		v = &view{record: there, far: home, other: &b.home, at: at}
	}
	return v, nil
}

// withoutHome is a view while the home side cannot be asked, and was not the primary: where the
// other side says that it is, it is, whatever the home side would say (M1). One with an older epoch
// was put back to an older state.
func (b *both) withoutHome(ctx context.Context, at time.Time, why error) (*view, error) {
	last := b.known()
	if last == nil || last.home || b.away == nil {
		return nil, why
	}
	there, err := readRecord(ctx, b.away.DB, "")
	if err != nil || there.Role != primary || there.Migration != last.Migration || there.Epoch < last.Epoch {
		return nil, errors.Join(why, err)
	}
	return &view{record: there, near: b.away, deaf: true, why: why.Error(), at: at}, nil
}

// take makes a view the one that counts, and opts the handle in or out.
func (b *both) take(v *view) {
	last := b.now.Swap(v)
	switch {
	case v == nil:
		b.opt.DB.Route(nil)
	case last == nil:
		b.opt.DB.Route(b.router)
		select {
		case b.begun <- struct{}{}:
		default:
		}
	}
}

// openAway opens the other side, once for each place; fresh: it may not be there yet.
func (b *both) openAway(ctx context.Context, at string, fresh bool) (*Side, error) {
	if b.away != nil && b.awayPlace == at {
		return b.away, nil
	}
	if b.away != nil {
		b.closing = append(b.closing, b.away.DB, b.away.Unchecked) // somebody may still read from it
		b.away = nil
	}
	s, err := b.open(ctx, at, fresh)
	if err != nil {
		return nil, err
	}
	b.away, b.awayPlace = s, at
	return s, nil
}

func (b *both) open(ctx context.Context, at string, fresh bool) (*Side, error) {
	db, err := b.opt.Open(ctx, at, Opening{Make: fresh})
	if err != nil {
		return nil, err
	}
	unchecked, err := b.opt.Open(ctx, at, Opening{Unchecked: true})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Side{DB: db, Unchecked: unchecked}, nil
}

// settled waits until somebody is the primary. Those who wait at the same time share the looks: one
// after the other, each with a look of its own, the last would wait for all of them.
func (b *both) settled(ctx context.Context, deadline time.Time) (*view, error) {
	for {
		v, err := b.refreshed(ctx, time.Now())
		if err == nil && (v == nil || v.near != nil) {
			return v, nil
		}
		if time.Now().After(deadline) {
			return nil, drive.Wrap(errors.Join(errors.New("nobody is the primary"), err), drive.Unavailable)
		}
		if err := sleep(ctx, lookAgain); err != nil {
			return nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	case <-t.C:
		return nil
	}
}

// errMoved is the error of hold.
var errMoved = errors.New("this side is not the primary any more")

// hold proves in a transaction that its side is the primary, and keeps it so until the transaction
// is over (M1). It is the first statement.
func hold(ctx context.Context, tx *sqldb.Tx, migration string) error {
	lock := "" // where there is one writer nobody changes it meanwhile
	if tx.Dialect() == sqldb.MySQL {
		lock = " LOCK IN SHARE MODE" // FOR SHARE is not MariaDB's
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

// openHome opens the home side for bringing rows.
func (b *both) openHome(ctx context.Context) error {
	b.looking.Lock()
	defer b.looking.Unlock()
	return b.openHomeLocked(ctx)
}

func (b *both) openHomeLocked(ctx context.Context) (err error) {
	if b.home.Unchecked == nil {
		b.home.Unchecked, err = b.opt.Open(ctx, b.opt.Here, Opening{Unchecked: true})
	}
	return err
}

// learn reads the schema of both sides, once.
func (b *both) learn(ctx context.Context, one, other *Side) error {
	b.shape.Lock()
	defer b.shape.Unlock()
	if b.shaped[one] != nil && b.shaped[other] != nil {
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
	if how := same(ours, theirs); how != "" {
		return wrong("the schemas differ: " + how)
	}
	b.tables = ours
	b.shaped[one], b.shaped[other] = ours, inOrderOf(ours, theirs)
	return nil
}

// shapes are the tables of a side.
func (b *both) shapes(s *Side) []*table {
	b.shape.Lock()
	defer b.shape.Unlock()
	return b.shaped[s]
}

// tablesOf finds a table in the shape of one side and of the other.
func (b *both) tablesOf(name string, from, to *Side) (source, target *table, err error) {
	b.shape.Lock()
	defer b.shape.Unlock()
	for i, t := range b.tables {
		if t.name == name {
			return b.shaped[from][i], b.shaped[to][i], nil
		}
	}
	return nil, nil, fmt.Errorf("a change of table %q, which is not there", name)
}

func (b *both) sideAway(ctx context.Context, at string, fresh bool) (*Side, error) {
	b.looking.Lock()
	defer b.looking.Unlock()
	return b.openAway(ctx, at, fresh)
}

func (b *both) awayKnown() *Side {
	b.looking.Lock()
	defer b.looking.Unlock()
	return b.away
}

// shapesAlone are the tables of a side whose other side need not be there any more.
func (b *both) shapesAlone(ctx context.Context, s *Side) []*table {
	if tables := b.shapes(s); tables != nil {
		return tables
	}
	tables, err := schemaOf(ctx, s.DB)
	if err != nil {
		b.log.WarnContext(ctx, "read the schema", "error", err)
	}
	return tables
}

// learnNotes reads the notes of the primary.
func (b *both) learnNotes(ctx context.Context, v *view) error {
	n := &notes{}
	for name, into := range map[string]any{notePace: &n.pace, noteOld: &n.old, noteNamed: &n.named} {
		if err := readNote(ctx, v.near.DB, name, into); err != nil {
			return err
		}
	}
	slices.Sort(n.named)
	b.noted.Store(n)
	return nil
}

// notes are those that were read last; never nil.
func (b *both) notes() *notes {
	if n := b.noted.Load(); n != nil {
		return n
	}
	return &notes{}
}

// State returns what this process knows, without asking.
func (b *both) State() State {
	v := b.known()
	if v == nil {
		return State{}
	}
	return b.stateOf(v)
}

func (b *both) stateOf(v *view) State {
	n := b.notes()
	return State{
		ID: v.Migration, Phase: v.Phase, Epoch: v.Epoch, Percent: v.Percent, Paused: v.Paused, Contents: v.Contents,
		Switched: v.Phase >= WriteNew, Term: v.Term, Mine: v.home == (v.Phase >= WriteNew),
		Pace: n.pace, Dropping: n.old.Dropping && v.Phase == NewOnly, OldContents: n.old.Contents, OldGone: n.old.Blobs.Ended, Deep: n.old.Deep,
	}
}
