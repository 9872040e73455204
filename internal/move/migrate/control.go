package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Refusal is why a step was not taken: the gates that are closed.
type Refusal struct { //nolint:errname // a refusal that lists its reasons
	Step  string
	Gates []Gate
}

// Error lists what is missing.
func (r *Refusal) Error() string {
	var why []string
	for _, g := range r.Gates {
		if !g.OK {
			why = append(why, g.Name+": "+g.Detail)
		}
	}
	return r.Step + " is refused: " + strings.Join(why, "; ")
}

func refuse(step string, gates []Gate) error {
	for _, g := range gates {
		if !g.OK {
			return drive.Wrap(&Refusal{Step: step, Gates: gates}, drive.WrongState)
		}
	}
	return nil
}

func wrong(why string) error { return drive.Wrap(errors.New(why), drive.WrongState) }

// Start looks at both sides and, unless it is only to look or something is wrong, begins. What is
// wrong is in the report.
func (m *Migration) Start(ctx context.Context, req Request) (Report, error) {
	home, err := readRecord(ctx, m.home.DB, "")
	if err != nil {
		return Report{}, err
	}
	if home.Role != nobody {
		return Report{}, wrong("a migration is under way, or its bookkeeping is there still")
	}
	if req.ToDB == "" && req.ToBlobs == "" {
		return Report{}, wrong("neither another database nor another store was named")
	}
	if req.Pace.Rows < 0 || req.Pace.Bytes < 0 {
		return Report{}, drive.Bad("rows_per_second, bytes_per_second", drive.OutOfRange, "min", 0)
	}
	if err := m.openHome(ctx); err != nil {
		return Report{}, err
	}
	report, err := m.inspector.preflight(ctx, req)
	if err != nil || !report.OK || req.DryRun {
		return report, err
	}
	if err := m.begin(ctx, req); err != nil {
		return report, err
	}
	_, err = m.Advance(ctx, Freeze)
	return report, err
}

// begin writes the row of this side. From then on the move is under way, at phase 0, and either
// goes on or is rolled back.
func (m *Migration) begin(ctx context.Context, req Request) error {
	now, err := m.home.DB.Now(ctx)
	if err != nil {
		return err
	}
	r := record{
		Migration: drive.NewID[drive.OperationID]().String(), Role: primary, Epoch: 1, Term: 1, Here: m.opt.Here, Peer: req.ToDB, Contents: req.ToBlobs,
		Marker: drive.NewID[drive.OperationID]().String(), ChangedAt: now, BegunAt: now,
	}
	made := false
	err = m.home.write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if made, err = insertRecord(ctx, tx, r); err == nil && made {
			err = errors.Join(writeNote(ctx, tx, noteOld, oldNotes{Contents: req.FromBlobs}), writeNote(ctx, tx, notePace, req.Pace))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("begin the migration: %w", err)
	}
	if !made {
		return errOvertaken
	}
	_, err = m.refresh(ctx)
	return err
}

// Advance enters the phase after from, up to 4, if its gate is open. In another phase than from it
// does nothing: asked for twice, it is done once. Phase 5 is Finish's, because nothing leads back
// from there.
func (m *Migration) Advance(ctx context.Context, from Phase) (Phase, error) {
	v, err := m.steadyAt(ctx, from)
	if err != nil {
		return 0, err
	}
	if v.Phase >= WriteNew {
		return v.Phase, wrong("phase 4 ends by finish, and after it there is none")
	}
	err = m.enter(ctx, v, v.Phase+1)
	return m.arrived(ctx, v.Phase, err)
}

// enter goes to the next phase.
func (m *Migration) enter(ctx context.Context, v *view, next Phase) error {
	if next == Fill {
		if err := m.prepare(ctx, v); err != nil {
			return err
		}
	}
	gates, err := m.gates(ctx, v, next, true)
	if err == nil {
		err = refuse("phase "+next.String(), gates)
	}
	if err != nil {
		return err
	}
	switch {
	case next == NewOnly:
		return m.left.leave(ctx, v)
	case next == WriteNew && v.Peer != "":
		return m.switcher.change(ctx, v, next)
	}
	return step(ctx, v, func(r *record) {
		r.Phase = next
		if next == ReadNew {
			r.Percent = 1
		}
		if next == WriteNew { // contents alone: no other row changes
			r.Term++
		}
	})
}

// arrived tells the phase that was reached.
func (m *Migration) arrived(ctx context.Context, before Phase, err error) (Phase, error) {
	if err != nil {
		return before, err
	}
	v, err := m.refresh(ctx)
	if err != nil || v == nil {
		return Freeze, err
	}
	return v.Phase, m.said.ack(ctx, v)
}

// Hear finds out whether something moves, for somebody who asks before Run has looked.
func (m *Migration) Hear(ctx context.Context) error {
	if m.known() != nil {
		return nil
	}
	return m.taking.runOnce(ctx)
}

// steady is the view for somebody who is about to change it.
func (m *Migration) steady(ctx context.Context) (*view, error) {
	if err := m.Hear(ctx); err != nil {
		return nil, err
	}
	return m.both.steady(ctx)
}

// steady asks where the move stands; it is an error when nothing moves, and when nobody is the
// primary just now.
func (b *both) steady(ctx context.Context) (*view, error) {
	v, err := b.refresh(ctx)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return nil, wrong("nothing is moving")
	case v.near == nil:
		return nil, wrong("a switch is under way")
	}
	return v, nil
}

// Any stands for a phase that does not matter to who asks.
const Any Phase = -1

// steadyAt is steady, for somebody who has seen the phase from.
func (m *Migration) steadyAt(ctx context.Context, from Phase) (*view, error) {
	v, err := m.steady(ctx)
	if err == nil && from != Any && v.Phase != from {
		return nil, wrong(fmt.Sprintf("it was asked for from phase %d, and this is phase %d", from, v.Phase))
	}
	return v, err
}

// step changes the primary's row, and nothing else.
func step(ctx context.Context, v *view, change func(r *record)) error {
	now, err := v.near.DB.Now(ctx)
	if err != nil {
		return err
	}
	to := v.record
	to.Epoch++
	to.ChangedAt = now
	change(&to)
	return swapRecord(ctx, *v.near, v.record, to)
}

// prepare makes what the other side and the triggers need. It can be done again.
func (m *Migration) prepare(ctx context.Context, v *view) error {
	if v.Peer == "" {
		return nil
	}
	away, err := m.sideAway(ctx, v.Peer, false)
	if err != nil {
		return err
	}
	there := v.record
	there.Role, there.Here, there.Peer = secondary, v.Peer, v.Here
	made := false
	err = away.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		made, err = insertRecord(ctx, tx, there)
		return err
	})
	if err != nil {
		return fmt.Errorf("mark the other side: %w", err)
	}
	if !made {
		have, err := readRecord(ctx, away.DB, "")
		if err != nil {
			return err
		}
		switch {
		case have.Migration == v.Migration && have.Role == retired:
			return wrong("going back has begun to empty the other side and was not finished: go back again")
		case have.Migration != v.Migration || have.Role != secondary:
			return wrong("the other side belongs to another migration, or is this one")
		}
	}
	if err := m.learn(ctx, &m.home, away); err != nil {
		return err
	}
	if err := arm(ctx, *away, m.shapes(away)); err != nil {
		return err
	}
	if err := arm(ctx, *v.near, m.shapes(v.near)); err != nil {
		return err
	}
	_, err = m.refresh(ctx)
	return err
}

// maxAccounts is how many accounts can be named: what a person types.
const maxAccounts = 100

// Percent sets how many accounts read from the new side in phase 3, and which do whatever the
// percentage; named nil: those that did.
func (m *Migration) Percent(ctx context.Context, percent int, named []drive.AccountID) error {
	v, err := m.steady(ctx)
	switch {
	case err != nil:
		return err
	case v.Phase != ReadNew:
		return wrong("only phase 3 reads from both sides")
	case percent < 0 || percent > 100:
		return drive.Bad("percent", drive.OutOfRange, "min", 0, "max", 100)
	case len(named) > maxAccounts:
		return drive.Bad("users", drive.OutOfRange, "min", 0, "max", maxAccounts, "sent", len(named))
	}
	if named != nil { // before the epoch: who acknowledges that has read this
		err := edit(ctx, m.both, v, noteNamed, func(all *[]string) {
			*all = []string{}
			for _, id := range named {
				*all = append(*all, id.String())
			}
		})
		if err != nil {
			return err
		}
	}
	err = step(ctx, v, func(r *record) { r.Percent = percent })
	_, err = m.arrived(ctx, v.Phase, err)
	return err
}

// Pause stops filling in and comparing, or lets them go on. Changes are always applied.
func (m *Migration) Pause(ctx context.Context, paused bool) error {
	v, err := m.steady(ctx)
	if err != nil {
		return err
	}
	err = step(ctx, v, func(r *record) { r.Paused = paused })
	_, err = m.arrived(ctx, v.Phase, err)
	return err
}

// Rollback goes back to the phase before from; from 0 and 1 to none, which empties the other side
// again. In another phase than from it does nothing.
func (m *Migration) Rollback(ctx context.Context, from Phase) (Phase, error) {
	v, err := m.steadyAt(ctx, from)
	if err != nil {
		return 0, err
	}
	if v.Phase == NewOnly {
		return v.Phase, wrong("the old side was left for good")
	}
	gates, err := m.gatesBack(ctx, v)
	if err == nil {
		err = refuse("going back from phase "+v.Phase.String(), gates)
	}
	if err != nil {
		return v.Phase, err
	}
	switch {
	case v.Phase <= Fill:
		err = m.abandon(ctx, v)
	case v.Phase == WriteNew && v.Peer != "":
		err = m.switcher.change(ctx, v, ReadNew)
	default:
		err = step(ctx, v, func(r *record) {
			if r.Phase == WriteNew {
				r.Term++
			}
			r.Phase--
		})
	}
	return m.arrived(ctx, v.Phase, err)
}

// Finish enters phase 5, from phase 4.
func (m *Migration) Finish(ctx context.Context) error {
	v, err := m.steady(ctx)
	if err != nil {
		return err
	}
	if v.Phase != WriteNew {
		return wrong("only phase 4 can be finished")
	}
	_, err = m.arrived(ctx, v.Phase, m.enter(ctx, v, NewOnly))
	return err
}

// DropOld begins to drop the old side, rows and contents; Run does it. early: although the days
// that it is to be kept are not over. deep is how many percent of contents are read at the new
// place before they go at the old one; of the others the size is asked for. Asked for again it does
// nothing but try again what could not be dropped.
func (m *Migration) DropOld(ctx context.Context, early bool, deep int) error {
	v, err := m.steady(ctx)
	if err != nil {
		return err
	}
	if v.Phase != NewOnly {
		return wrong("the old side is in use until phase 5")
	}
	if err := m.learnNotes(ctx, v); err != nil {
		return err
	}
	if !m.notes().old.Dropping {
		gates, err := m.left.gatesDrop(ctx, v, early)
		if err == nil {
			err = refuse("dropping the old side", gates)
		}
		if err != nil {
			return err
		}
	}
	err = edit(ctx, m.both, v, noteOld, func(n *oldNotes) {
		n.Dropping, n.Deep = true, deep
		if n.Blobs.Kept > 0 {
			n.Blobs = OldContents{}
		}
	})
	if err == nil {
		err = step(ctx, v, func(*record) {})
	}
	_, err = m.arrived(ctx, v.Phase, err)
	return err
}

// DropReady says whether what DropOld was asked for may be done now: every instance acts by the
// epoch that it came with.
func (m *Migration) DropReady(ctx context.Context) (bool, error) { return m.left.mayDrop(ctx) }

// NoteContents changes what is kept of how far contents are.
func (m *Migration) NoteContents(ctx context.Context, change func(*OldContents)) error {
	return m.left.noteContents(ctx, change)
}

// Drop forgets a migration that has finished: the bookkeeping of the new side. It is for a process
// that was started on that side, when no other is left that was not. The old side keeps its rows,
// and refuses every write. early: although the old side is being dropped; what is left there stays,
// and nothing knows of it any more.
func (m *Migration) Drop(ctx context.Context, early bool) error {
	v, err := m.steady(ctx)
	switch {
	case err != nil:
		return err
	case v.Phase != NewOnly:
		return wrong("the migration has not finished")
	case !v.home:
		return wrong("start the instances with the new database first")
	}
	if err := m.noneStays(ctx, v); err != nil {
		return err
	}
	if err := m.left.atRest(ctx, v); err != nil && !(early && drive.IsKind(err, drive.WrongState)) {
		return err
	}
	if err := m.left.arrive(ctx, v); err != nil {
		return err
	}
	if err := disarm(ctx, *v.near, m.shapesAlone(ctx, v.near)); err != nil {
		return err
	}
	if err := forgetAll(ctx, *v.near); err != nil {
		return err
	}
	m.looking.Lock()
	defer m.looking.Unlock()
	m.take(nil)
	return nil
}

// abandon goes back from phase 0 or 1 to none. What was brought to the other side is deleted, if
// that is the one that was empty when it began; it can be done again wherever it stopped.
func (m *Migration) abandon(ctx context.Context, v *view) error {
	// So that all stop applying, and nobody who is about to enter phase 1 does.
	if err := step(ctx, v, func(r *record) { r.Phase = Freeze }); err != nil {
		return err
	}
	if v.Peer != "" {
		if v.other != nil {
			if err := m.empty(ctx, v); err != nil {
				return err
			}
		} else if v.Phase != Freeze || v.far.Migration != "" {
			return wrong("the other side cannot be reached, or is not the one that was filled: what is on it stays; go back again to forget it")
		}
		if err := disarm(ctx, *v.near, m.shapesAlone(ctx, v.near)); err != nil {
			return err
		}
	}
	return forgetAll(ctx, *v.near)
}

// empty takes from the other side everything that was brought.
func (m *Migration) empty(ctx context.Context, v *view) error {
	if v.far.Role == secondary {
		to := v.far
		to.Role = retired // who is still applying is refused
		if err := swapRecord(ctx, *v.other, v.far, to); err != nil {
			return err
		}
	}
	tables := m.shapes(v.other)
	if err := disarm(ctx, *v.other, tables); err != nil {
		return err
	}
	for _, t := range tables {
		for n := int64(1); n > 0; {
			err := v.other.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
				n, err = t.deleteSome(ctx, tx)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return forgetAll(ctx, *v.other)
}

// deleteSome deletes the first rows of a table.
func (t *table) deleteSome(ctx context.Context, tx *sqldb.Tx) (int64, error) {
	rows, err := t.chunk(ctx, tx, "", fillRows/4)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = t.keyOf(r)
	}
	return int64(len(rows)), t.deleteKeys(ctx, tx, keys)
}
