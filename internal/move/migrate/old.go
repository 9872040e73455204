package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// What is left of the old side once phase 5 was entered: kept, and refusing every write, until
// somebody asks for it to be dropped.
//
//	asked for      the note says so, and the epoch is raised: nothing goes until every instance that is alive acts by it, which one that
//	               was started with the old settings does not
//	rows           deleted some at a time under the lock of the old side's row, by whoever reaches it
//	contents       removed one at a time, each after the new place was asked for it (package contents)
//	what stays     the row of migration_side, so that a start with the old settings is refused for ever, the schema, and the mark
//
// All of it may be repeated, and goes on wherever it stopped.

const (
	defaultKeep = 7 * 24 * time.Hour
	dropTime    = time.Second // of deleting between two looks at where the move stands
)

// leftSide is the old side once it is left: what must hold before it goes, and how it goes.
type leftSide struct{ *gatekeeper }

// leave makes the new side the only one.
func (l *leftSide) leave(ctx context.Context, v *view) error {
	now, err := v.near.DB.Now(ctx)
	if err == nil {
		err = edit(ctx, l.both, v, noteOld, func(n *oldNotes) { n.LeftAt = now })
	}
	if err != nil {
		return err
	}
	if err := step(ctx, v, func(r *record) { r.Phase = NewOnly }); err != nil {
		return err
	}
	v, err = l.refresh(ctx)
	if err != nil || v == nil || v.near == nil {
		return err
	}
	return l.part(ctx, v)
}

// part ends the capture on the new side, and makes the old one refuse even what is brought to it.
// Whoever finds that it was not done does it.
func (l *leftSide) part(ctx context.Context, v *view) error {
	if v.other == nil || v.far.Role != secondary {
		return nil
	}
	if err := disarm(ctx, *v.near, l.shapes(v.near)); err != nil {
		return err
	}
	to := v.far
	to.Role, to.Phase, to.ChangedAt = retired, NewOnly, v.ChangedAt
	err := swapRecord(ctx, *v.other, v.far, to)
	if errors.Is(err, errOvertaken) { // whoever leads has found it at the same time
		if have, readErr := readRecord(ctx, v.other.DB, ""); readErr == nil && have.Role == retired && have.Migration == v.Migration {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("leave the old side: %w", err)
	}
	return nil
}

// gatesDrop are what must hold before the old side is dropped.
func (l *leftSide) gatesDrop(ctx context.Context, v *view, early bool) ([]Gate, error) {
	kept, err := l.checkKept(ctx, v, early)
	if err != nil {
		return nil, err
	}
	instances, err := l.checkInstances(ctx, v, ready)
	if err != nil {
		return nil, err
	}
	all := []Gate{kept, instances}
	if v.Peer != "" {
		g, err := l.checkOldRows(ctx, v)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	if l.party.Contents != nil && v.Contents != "" {
		more, err := l.party.Contents.GateDrop(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// checkKept asks whether the old side was kept for as long as it is to be.
func (l *leftSide) checkKept(ctx context.Context, v *view, early bool) (Gate, error) {
	now, err := v.near.DB.Now(ctx)
	if l.opt.Kept != nil {
		now = min(now, drive.TimeOf(l.opt.Kept()))
	}
	until := l.keptUntil(v)
	g := Gate{Name: "kept", OK: now >= until, Detail: "the old side was kept until " + until.Std().UTC().Format(time.RFC3339)}
	switch {
	case !g.OK && early:
		g.OK, g.Detail = true, g.Detail+", as it was to be: it is dropped early"
	case !g.OK:
		g.Detail = "the old side is kept until " + until.Std().UTC().Format(time.RFC3339) + ", unless you ask for it to be dropped early"
	}
	return g, err
}

func (l *leftSide) keptUntil(v *view) drive.Time {
	left := l.notes().old.LeftAt
	if left == 0 { // by a release that did not note it
		left = v.ChangedAt
	}
	return drive.TimeOf(left.Std().Add(l.opt.Keep))
}

// checkOldRows asks whether the other side is the one that was left, this process serves from the
// new one by its settings, and both were equal when it was left.
func (l *leftSide) checkOldRows(ctx context.Context, v *view) (Gate, error) {
	bad := func(why string) (Gate, error) { return Gate{Name: "old-rows", Detail: why}, nil }
	switch {
	case !v.home:
		return bad("start the instances with the new settings first")
	case v.other == nil:
		return bad("the old database: " + v.why)
	case v.far.Role != retired || v.far.Migration != v.Migration || v.far.Marker != v.Marker:
		return bad("the other database is not the one that was left")
	}
	c, err := l.lastChecksum(ctx, v)
	if err != nil {
		return Gate{Name: "old-rows"}, err
	}
	if c.state != "done" || c.unequal > 0 || c.marker != v.Marker || c.term != v.Term {
		return bad("there is no comparison by which both databases were equal when the old one was left")
	}
	const installation = "SELECT value FROM meta WHERE name = 'installation'"
	var ours, theirs string
	if err := v.near.DB.QueryRow(ctx, installation).Scan(&ours); err != nil {
		return Gate{Name: "old-rows"}, err
	}
	if err := v.other.DB.QueryRow(ctx, installation).Scan(&theirs); err != nil && !drive.IsKind(err, drive.NotFound) {
		return Gate{Name: "old-rows"}, err
	}
	if theirs != ours {
		return bad(fmt.Sprintf("the databases are of the installations %q and %q", ours, theirs))
	}
	return Gate{Name: "old-rows", OK: true, Detail: fmt.Sprintf("the old database is the one that was left; %d rows were equal", c.rows)}, nil
}

// mayDrop says whether what was asked for may be done now: every instance acts by the epoch that it
// came with.
func (l *leftSide) mayDrop(ctx context.Context) (bool, error) {
	v := l.known()
	if v == nil || v.near == nil || v.Phase != NewOnly || !l.notes().old.Dropping {
		return false, nil
	}
	g, err := l.checkInstances(ctx, v, ready)
	return g.OK, err
}

// noteContents changes what is kept of how far contents are.
func (l *leftSide) noteContents(ctx context.Context, change func(*OldContents)) error {
	v := l.known()
	if v == nil || v.near == nil {
		return wrong("nothing is moving")
	}
	return edit(ctx, l.both, v, noteOld, func(n *oldNotes) { change(&n.Blobs) })
}

// dropRows deletes rows of the old side for dropTime, if that was asked for. A process that does
// not reach it leaves it to the others.
func (l *leftSide) dropRows(ctx context.Context, v *view) error {
	if n := l.notes().old; !n.Dropping || n.Rows || !v.home || v.Peer != "" && (v.other == nil || v.far.Role != retired) {
		return nil
	}
	if ok, err := l.mayDrop(ctx); err != nil || !ok {
		return err
	}
	if v.Peer != "" {
		for until := time.Now().Add(dropTime); ; {
			n, err := l.dropSome(ctx, v)
			if err != nil {
				return fmt.Errorf("drop the old rows: %w", err)
			}
			if n == 0 {
				break
			}
			if time.Now().After(until) {
				return nil
			}
		}
		if err := l.shrink(ctx, v); err != nil {
			return fmt.Errorf("give the room of the old rows back: %w", err)
		}
	}
	return edit(ctx, l.both, v, noteOld, func(n *oldNotes) { n.Rows = true })
}

// dropSome deletes the first rows that are left, after it has proved under the lock of the side's
// row that it is the one that was left.
func (l *leftSide) dropSome(ctx context.Context, v *view) (n int64, err error) {
	for _, t := range l.shapes(v.other) {
		err := v.other.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if err = holdRetired(ctx, tx, v); err != nil {
				return err
			}
			if err = mark(ctx, tx, 1); err == nil {
				n, err = t.deleteSome(ctx, tx)
			}
			return errors.Join(err, mark(ctx, tx, 0))
		})
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

func holdRetired(ctx context.Context, tx *sqldb.Tx, v *view) error {
	have, err := readRecord(ctx, tx, tx.ForUpdate())
	if err == nil && (have.Role != retired || have.Migration != v.Migration || have.Marker != v.Marker) {
		err = wrong("the other database is not the one that was left")
	}
	return err
}

// shrink empties the old side's bookkeeping, but for the row that says that it was left, and gives
// the room of what is gone back.
func (l *leftSide) shrink(ctx context.Context, v *view) error {
	still := func(ctx context.Context, tx *sqldb.Tx) error { return holdRetired(ctx, tx, v) }
	if err := forgetGrown(ctx, *v.other, still); err != nil {
		return err
	}
	err := v.other.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := still(ctx, tx); err != nil {
			return err
		}
		for _, t := range bookkeeping {
			if _, err := tx.Exec(ctx, "DELETE FROM migration_"+t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || v.other.DB.Dialect() == sqldb.SQLite {
		return err
	}
	for _, t := range l.shapes(v.other) {
		err := v.other.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "TRUNCATE TABLE "+quote(t.name))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// atRest refuses while the old side is being dropped: what is left there would stay for ever.
func (l *leftSide) atRest(ctx context.Context, v *view) error {
	if err := l.learnNotes(ctx, v); err != nil {
		return err
	}
	if n := l.notes().old; n.Dropping && (!n.Rows || v.Contents != "" && !n.Blobs.Ended) {
		return wrong("the old side is being dropped: wait until the status says that it is dropped, or ask for it early, and what is left there stays")
	}
	return nil
}

// old is what Status shows of the side that was left.
func (l *leftSide) old(ctx context.Context, v *view) (*Old, error) {
	if v.Phase != NewOnly {
		return nil, nil
	}
	if err := l.learnNotes(ctx, v); err != nil {
		return nil, err
	}
	n := l.notes().old
	o := &Old{State: "kept", KeptUntil: l.keptUntil(v), Rows: n.Rows || v.Peer == "", Contents: n.Blobs, Gate: []Gate{}}
	switch {
	case n.Rows && (n.Blobs.Ended && n.Blobs.Kept == 0 || v.Contents == ""):
		o.State = "dropped"
	case n.Dropping:
		o.State = "dropping"
		g, err := l.checkInstances(ctx, v, ready)
		o.Gate = []Gate{g}
		return o, err
	default:
		gates, err := l.gatesDrop(ctx, v, false)
		o.Gate = append(o.Gate, gates...)
		return o, err
	}
	return o, nil
}
