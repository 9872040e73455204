package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// The old side after phase 5 was entered: it is kept and refuses all writes, until DropOld is
// called.
//
//	request        a note is written and the epoch is raised: nothing is deleted until each live instance acts by that epoch, which an
//	               instance with the old settings never does
//	rows           deleted in short transactions under the lock of the old side's row, by any instance that reaches it
//	contents       deleted one at a time, each after the new place was asked for it (package contents)
//	what stays     the row of migration_side, so that a start with the old settings is always refused, the schema, and the marker
//
// All steps are idempotent and resume where they stopped.

const (
	// defaultKeep is the default of Options.RetainOld: how long the old side is kept in phase 5.
	defaultKeep = 7 * 24 * time.Hour
	dropSlice   = time.Second // time of deleting between two polls of the migration
)

// oldSide is the old side in phase 5: it checks the conditions for dropping it, and drops it.
type oldSide struct{ *gatekeeper }

// retire enters phase 5 and stores when that was. Then it detaches the old side, which refuses
// writes from then on. If detaching fails after the phase was entered, the leader repeats it.
func (o *oldSide) retire(ctx context.Context, v *snapshot) error {
	now, err := v.primary.DB.Now(ctx)
	if err == nil {
		err = editNote(ctx, o.sides, v, noteOld, func(n *oldNotes) { n.LeftAt = now })
	}
	if err != nil {
		return err
	}
	if err := updateRecord(ctx, v, func(r *record) { r.Phase = NewOnly }); err != nil {
		return err
	}
	v, err = o.refresh(ctx)
	if err != nil || v == nil || v.primary == nil {
		return err
	}
	return o.detach(ctx, v)
}

// detach drops the triggers of the new side and retires the old side, which then refuses replicated
// rows, too. It is idempotent: the leader repeats it if it was interrupted.
func (o *oldSide) detach(ctx context.Context, v *snapshot) error {
	if v.other == nil || v.otherRecord.Role != secondary {
		return nil
	}
	if err := dropTriggers(ctx, *v.primary, o.tablesFor(v.primary)); err != nil {
		return err
	}
	to := v.otherRecord
	to.Role, to.Phase, to.ChangedAt = retired, NewOnly, v.ChangedAt
	err := swapRecord(ctx, *v.other, v.otherRecord, to)
	if errors.Is(err, errOvertaken) { // the leader was faster
		if have, readErr := readRecord(ctx, v.other.DB, ""); readErr == nil && have.Role == retired && have.Migration == v.Migration {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("leave the old side: %w", err)
	}
	return nil
}

// gatesDrop returns the conditions for dropping the old side, open and closed ones; early omits the
// waiting time. The error reports a failed check, not a closed gate.
func (o *oldSide) gatesDrop(ctx context.Context, v *snapshot, early bool) ([]Gate, error) {
	kept, err := o.checkKept(ctx, v, early)
	if err != nil {
		return nil, err
	}
	instances, err := o.checkInstances(ctx, v, ready)
	if err != nil {
		return nil, err
	}
	all := []Gate{kept, instances}
	if v.Peer != "" {
		g, err := o.checkOldRows(ctx, v)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	if o.party.Contents != nil && v.Contents != "" {
		more, err := o.party.Contents.GateDrop(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// checkKept returns the gate "kept", which is open if the retention period is over by both clocks,
// or if early is set.
func (o *oldSide) checkKept(ctx context.Context, v *snapshot, early bool) (Gate, error) {
	now, err := v.primary.DB.Now(ctx)
	if o.opt.RetentionClock != nil {
		now = min(now, drive.TimeOf(o.opt.RetentionClock()))
	}
	until := o.keptUntil(v)
	g := Gate{Name: "kept", OK: now >= until, Detail: "the old side was kept until " + until.Std().UTC().Format(time.RFC3339)}
	switch {
	case !g.OK && early:
		g.OK, g.Detail = true, g.Detail+", as it was to be: it is dropped early"
	case !g.OK:
		g.Detail = "the old side is kept until " + until.Std().UTC().Format(time.RFC3339) + ", unless you ask for it to be dropped early"
	}
	return g, err
}

// keptUntil returns the end of the retention period, counted from when phase 5 was entered. The
// notes must be loaded.
func (o *oldSide) keptUntil(v *snapshot) drive.Time {
	left := o.notes().old.LeftAt
	if left == 0 { // an older release did not note it
		left = v.ChangedAt
	}
	return drive.TimeOf(left.Std().Add(o.opt.RetainOld))
}

// checkOldRows checks that the other side is the one that was left, that this process has the new
// settings, and that both sides were equal when the old one was left.
func (o *oldSide) checkOldRows(ctx context.Context, v *snapshot) (Gate, error) {
	bad := func(why string) (Gate, error) { return Gate{Name: "old-rows", Detail: why}, nil }
	switch {
	case !v.nearIsHome:
		return bad("start the instances with the new settings first")
	case v.other == nil:
		return bad("the old database: " + v.otherError)
	case v.otherRecord.Role != retired || v.otherRecord.Migration != v.Migration || v.otherRecord.Marker != v.Marker:
		return bad("the other database is not the one that was left")
	}
	c, err := o.lastChecksum(ctx, v)
	if err != nil {
		return Gate{Name: "old-rows"}, err
	}
	if c.state != "done" || c.unequal > 0 || c.marker != v.Marker || c.term != v.Term {
		return bad("there is no comparison by which both databases were equal when the old one was left")
	}
	const installation = "SELECT value FROM meta WHERE name = 'installation'"
	var ours, theirs string
	if err := v.primary.DB.QueryRow(ctx, installation).Scan(&ours); err != nil {
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

// dropAllowed reports whether the old side may be dropped now: DropOld was called, and each live
// instance acts by the epoch of that call.
func (o *oldSide) dropAllowed(ctx context.Context) (bool, error) {
	v := o.currentSnapshot()
	if v == nil || v.primary == nil || v.Phase != NewOnly || !o.notes().old.Dropping {
		return false, nil
	}
	g, err := o.checkInstances(ctx, v, ready)
	return g.OK, err
}

// noteContents reads the stored progress of deleting contents at the old store, lets change modify
// it, and stores the result. change may be called more than once. It returns WrongState if this
// process knows of no migration, or during a switch.
func (o *oldSide) noteContents(ctx context.Context, change func(*OldContents)) error {
	v := o.currentSnapshot()
	if v == nil || v.primary == nil {
		return wrongState("nothing is moving")
	}
	return editNote(ctx, o.sides, v, noteOld, func(n *oldNotes) { change(&n.Blobs) })
}

// dropRows deletes rows of the old side for about dropSlice, if DropOld was called and all
// instances know of it; a later call continues. A process that cannot reach the old side does
// nothing.
func (o *oldSide) dropRows(ctx context.Context, v *snapshot) error {
	if n := o.notes().old; !n.Dropping || n.Rows || !v.nearIsHome || v.Peer != "" && (v.other == nil || v.otherRecord.Role != retired) {
		return nil
	}
	if ok, err := o.dropAllowed(ctx); err != nil || !ok {
		return err
	}
	if v.Peer != "" {
		for until := time.Now().Add(dropSlice); ; {
			n, err := o.dropSome(ctx, v)
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
		if err := o.reclaimSpace(ctx, v); err != nil {
			return fmt.Errorf("give the room of the old rows back: %w", err)
		}
	}
	return editNote(ctx, o.sides, v, noteOld, func(n *oldNotes) { n.Rows = true })
}

// dropSome deletes some of the remaining rows and returns their number. It first verifies the
// identity of the side under the lock of its row.
func (o *oldSide) dropSome(ctx context.Context, v *snapshot) (n int64, err error) {
	for _, t := range o.tablesFor(v.other) {
		err := v.other.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if err = lockRetired(ctx, tx, v); err != nil {
				return err
			}
			if err = setApplying(ctx, tx, 1); err == nil {
				n, err = t.deleteSome(ctx, tx)
			}
			return errors.Join(err, setApplying(ctx, tx, 0))
		})
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// lockRetired locks the row of the old side. It returns WrongState if the side is not the retired
// side of this migration.
func lockRetired(ctx context.Context, tx *sqldb.Tx, v *snapshot) error {
	have, err := readRecord(ctx, tx, tx.ForUpdate())
	if err == nil && (have.Role != retired || have.Migration != v.Migration || have.Marker != v.Marker) {
		err = wrongState("the other database is not the one that was left")
	}
	return err
}

// reclaimSpace empties the old side's bookkeeping except the row of migration_side, and frees the
// disk space of the deleted rows.
func (o *oldSide) reclaimSpace(ctx context.Context, v *snapshot) error {
	still := func(ctx context.Context, tx *sqldb.Tx) error { return lockRetired(ctx, tx, v) }
	if err := clearLargeTables(ctx, *v.other, still); err != nil {
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
	for _, t := range o.tablesFor(v.other) {
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

// checkNotDropping returns WrongState while the old side is being dropped: the rest of it would
// stay for ever.
func (o *oldSide) checkNotDropping(ctx context.Context, v *snapshot) error {
	if err := o.loadNotes(ctx, v); err != nil {
		return err
	}
	if n := o.notes().old; n.Dropping && (!n.Rows || v.Contents != "" && !n.Blobs.Ended) {
		return wrongState("the old side is being dropped: wait until the status says that it is dropped, or ask for it early, and what is left there stays")
	}
	return nil
}

// status returns the state of the old side for Status; nil, without an error, before phase 5. It
// reads the notes again.
func (o *oldSide) status(ctx context.Context, v *snapshot) (*Old, error) {
	if v.Phase != NewOnly {
		return nil, nil
	}
	if err := o.loadNotes(ctx, v); err != nil {
		return nil, err
	}
	n := o.notes().old
	out := &Old{State: "kept", KeptUntil: o.keptUntil(v), Rows: n.Rows || v.Peer == "", Contents: n.Blobs, Gate: []Gate{}}
	switch {
	case n.Rows && (n.Blobs.Ended && n.Blobs.Kept == 0 || v.Contents == ""):
		out.State = "dropped"
	case n.Dropping:
		out.State = "dropping"
		g, err := o.checkInstances(ctx, v, ready)
		out.Gate = []Gate{g}
		return out, err
	default:
		gates, err := o.gatesDrop(ctx, v, false)
		out.Gate = append(out.Gate, gates...)
		return out, err
	}
	return out, nil
}
