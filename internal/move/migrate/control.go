package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Refusal is the error of a step that was refused, with all checked gates.
type Refusal struct { //nolint:errname // a refusal that lists its reasons
	Step  string
	Gates []Gate
}

// Error names the refused step and lists the closed gates with their details.
func (r *Refusal) Error() string {
	var why []string
	for _, g := range r.Gates {
		if !g.OK {
			why = append(why, g.Name+": "+g.Detail)
		}
	}
	return r.Step + " is refused: " + strings.Join(why, "; ")
}

// refuse returns nil if all gates are open, else WrongState that wraps a Refusal with step and all
// gates, the open ones too.
func refuse(step string, gates []Gate) error {
	for _, g := range gates {
		if !g.OK {
			return drive.Wrap(&Refusal{Step: step, Gates: gates}, drive.WrongState)
		}
	}
	return nil
}

// wrongState returns a WrongState error whose cause is the text why.
func wrongState(why string) error { return drive.Wrap(errors.New(why), drive.WrongState) }

// Start checks both sides and begins the migration at phase 0, unless req is a dry run or a check
// failed. Failed checks are in the report, not in the error: look at Report.OK. It returns
// WrongState if a migration exists already, or if req names neither a database nor a store, and
// BadRequest for a negative pace.
func (m *Migration) Start(ctx context.Context, req Request) (Report, error) {
	home, err := readRecord(ctx, m.home.DB, "")
	if err != nil {
		return Report{}, err
	}
	if home.Role != noRole {
		return Report{}, wrongState("a migration is under way, or its bookkeeping is there still")
	}
	if req.ToDB == "" && req.ToBlobs == "" {
		return Report{}, wrongState("neither another database nor another store was named")
	}
	if req.Pace.Rows < 0 || req.Pace.Bytes < 0 {
		return Report{}, drive.BadField("rows_per_second, bytes_per_second", drive.OutOfRange, "min", 0)
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

// begin inserts the row of this side. From then on the migration is at phase 0 and can be continued
// or rolled back.
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

// Advance enters the phase after from, up to phase 4, and returns the current phase. from is the
// phase that the caller believes current, or AnyPhase; otherwise it returns WrongState without any
// change, so a repeated call cannot advance twice. It returns WrongState that wraps a *Refusal if a
// gate is closed. Phase 5 needs Finish, because it cannot be undone.
func (m *Migration) Advance(ctx context.Context, from Phase) (Phase, error) {
	v, err := m.requirePhase(ctx, from)
	if err != nil {
		return 0, err
	}
	if v.Phase >= WriteNew {
		return v.Phase, wrongState("phase 4 ends by finish, and after it there is none")
	}
	err = m.enter(ctx, v, v.Phase+1)
	return m.ackPhase(ctx, v.Phase, err)
}

// enter writes the next phase into the record if its gates are open, and returns the Refusal
// otherwise. Before phase 1 it prepares the other side; entering phase 4 switches the primary if
// rows move, and entering phase 5 retires the old side. Instances follow the new epoch later: see
// ackPhase.
func (m *Migration) enter(ctx context.Context, v *snapshot, next Phase) error {
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
		return m.oldSide.retire(ctx, v)
	case next == WriteNew && v.Peer != "":
		return m.switcher.switchPrimary(ctx, v, next)
	}
	return updateRecord(ctx, v, func(r *record) {
		r.Phase = next
		if next == ReadNew {
			r.Percent = 1
		}
		if next == WriteNew { // only contents move: no other row changes
			r.Term++
		}
	})
}

// ackPhase ends a step. If err is not nil, it returns before and err. Otherwise it reads the state
// again, acknowledges the new epoch for this process and returns the current phase.
func (m *Migration) ackPhase(ctx context.Context, before Phase, err error) (Phase, error) {
	if err != nil {
		return before, err
	}
	v, err := m.refresh(ctx)
	if err != nil || v == nil {
		return Freeze, err
	}
	return v.Phase, m.announcer.ack(ctx, v)
}

// EnsureLoaded loads the state of the migration, by one poll, if Run has not done so yet. It fails
// if the sides cannot be read.
func (m *Migration) EnsureLoaded(ctx context.Context) error {
	if m.currentSnapshot() != nil {
		return nil
	}
	return m.participant.runOnce(ctx)
}

// requireStep returns a fresh snapshot for a step. It returns WrongState if nothing moves or a
// switch is under way.
func (m *Migration) requireStep(ctx context.Context) (*snapshot, error) {
	if err := m.EnsureLoaded(ctx); err != nil {
		return nil, err
	}
	return m.requireSnapshot(ctx)
}

// requireSnapshot refreshes the snapshot and returns it; its primary is not nil. It returns
// WrongState if nothing moves or a switch is under way.
func (s *sides) requireSnapshot(ctx context.Context) (*snapshot, error) {
	v, err := s.refresh(ctx)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return nil, wrongState("nothing is moving")
	case v.primary == nil:
		return nil, wrongState("a switch is under way")
	}
	return v, nil
}

// AnyPhase matches every phase in Advance and Rollback.
const AnyPhase Phase = -1

// requirePhase returns a fresh snapshot for a step. It returns WrongState if no migration runs, if
// a switch is under way, or if the current phase is not from. AnyPhase accepts each phase.
func (m *Migration) requirePhase(ctx context.Context, from Phase) (*snapshot, error) {
	v, err := m.requireStep(ctx)
	if err == nil && from != AnyPhase && v.Phase != from {
		return nil, wrongState(fmt.Sprintf("it was asked for from phase %d, and this is phase %d", from, v.Phase))
	}
	return v, err
}

// updateRecord changes the primary's row under the next epoch. If another instance changed it
// first, it returns errOvertaken.
func updateRecord(ctx context.Context, v *snapshot, change func(r *record)) error {
	now, err := v.primary.DB.Now(ctx)
	if err != nil {
		return err
	}
	to := v.record
	to.Epoch++
	to.ChangedAt = now
	change(&to)
	return swapRecord(ctx, *v.primary, v.record, to)
}

// prepare marks the other side as secondary and creates the triggers on both sides. It is
// idempotent.
func (m *Migration) prepare(ctx context.Context, v *snapshot) error {
	if v.Peer == "" {
		return nil
	}
	away, err := m.openOther(ctx, v.Peer, false)
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
			return wrongState("going back has begun to empty the other side and was not finished: go back again")
		case have.Migration != v.Migration || have.Role != secondary:
			return wrongState("the other side belongs to another migration, or is this one")
		}
	}
	if err := m.loadSchemas(ctx, &m.home, away); err != nil {
		return err
	}
	if err := createTriggers(ctx, *away, m.tablesFor(away)); err != nil {
		return err
	}
	if err := createTriggers(ctx, *v.primary, m.tablesFor(v.primary)); err != nil {
		return err
	}
	_, err = m.refresh(ctx)
	return err
}

// maxAccounts is the largest number of accounts that can be named in Percent.
const maxAccounts = 100

// Percent sets the percentage of accounts that read from the new side in phase 3, and the accounts
// that do so regardless of it. A nil named keeps the named accounts.
func (m *Migration) Percent(ctx context.Context, percent int, named []drive.AccountID) error {
	v, err := m.requireStep(ctx)
	switch {
	case err != nil:
		return err
	case v.Phase != ReadNew:
		return wrongState("only phase 3 reads from both sides")
	case percent < 0 || percent > 100:
		return drive.BadField("percent", drive.OutOfRange, "min", 0, "max", 100)
	case len(named) > maxAccounts:
		return drive.BadField("users", drive.OutOfRange, "min", 0, "max", maxAccounts, "sent", len(named))
	}
	if named != nil { // before the epoch: an instance that acknowledges it has read the list
		err := editNote(ctx, m.sides, v, noteNamed, func(all *[]string) {
			*all = []string{}
			for _, id := range named {
				*all = append(*all, id.String())
			}
		})
		if err != nil {
			return err
		}
	}
	err = updateRecord(ctx, v, func(r *record) { r.Percent = percent })
	_, err = m.ackPhase(ctx, v.Phase, err)
	return err
}

// Pause stops filling in and comparing, or resumes them if paused is false. Changes are applied in
// either case. It returns WrongState if there is no migration.
func (m *Migration) Pause(ctx context.Context, paused bool) error {
	v, err := m.requireStep(ctx)
	if err != nil {
		return err
	}
	err = updateRecord(ctx, v, func(r *record) { r.Paused = paused })
	_, err = m.ackPhase(ctx, v.Phase, err)
	return err
}

// Rollback returns to the phase before from, and returns the phase that is then current. From phase
// 0 or 1 it ends the migration and empties the other side. It returns WrongState without any change
// if the current phase is not from (AnyPhase accepts each) or in phase 5, and WrongState that wraps
// a *Refusal if a gate is closed.
func (m *Migration) Rollback(ctx context.Context, from Phase) (Phase, error) {
	v, err := m.requirePhase(ctx, from)
	if err != nil {
		return 0, err
	}
	if v.Phase == NewOnly {
		return v.Phase, wrongState("the old side was left for good")
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
		err = m.abort(ctx, v)
	case v.Phase == WriteNew && v.Peer != "":
		err = m.switcher.switchPrimary(ctx, v, ReadNew)
	default:
		err = updateRecord(ctx, v, func(r *record) {
			if r.Phase == WriteNew {
				r.Term++
			}
			r.Phase--
		})
	}
	return m.ackPhase(ctx, v.Phase, err)
}

// Finish enters phase 5 from phase 4, in which the old side refuses writes. It cannot be undone. It
// returns WrongState in any other phase, and WrongState that wraps a *Refusal if a gate is closed.
func (m *Migration) Finish(ctx context.Context) error {
	v, err := m.requireStep(ctx)
	if err != nil {
		return err
	}
	if v.Phase != WriteNew {
		return wrongState("only phase 4 can be finished")
	}
	_, err = m.ackPhase(ctx, v.Phase, m.enter(ctx, v, NewOnly))
	return err
}

// DropOld requests that Run, in the background, deletes rows and contents of the old side. early
// skips the retention period. deep is the percentage of contents that are read at the new place
// before they are deleted at the old one; of the others only the size is checked. A repeated call
// retries contents that could not be deleted. It returns WrongState before phase 5, and one that
// wraps a *Refusal if a gate is closed.
func (m *Migration) DropOld(ctx context.Context, early bool, deep int) error {
	v, err := m.requireStep(ctx)
	if err != nil {
		return err
	}
	if v.Phase != NewOnly {
		return wrongState("the old side is in use until phase 5")
	}
	if err := m.loadNotes(ctx, v); err != nil {
		return err
	}
	if !m.notes().old.Dropping {
		gates, err := m.oldSide.gatesDrop(ctx, v, early)
		if err == nil {
			err = refuse("dropping the old side", gates)
		}
		if err != nil {
			return err
		}
	}
	err = editNote(ctx, m.sides, v, noteOld, func(n *oldNotes) {
		n.Dropping, n.Deep = true, deep
		if n.Blobs.Kept > 0 {
			n.Blobs = OldContents{}
		}
	})
	if err == nil {
		err = updateRecord(ctx, v, func(*record) {})
	}
	_, err = m.ackPhase(ctx, v.Phase, err)
	return err
}

// DropReady reports whether the old side may be dropped now: DropOld was called, and each live
// instance acts by the epoch of that call.
func (m *Migration) DropReady(ctx context.Context) (bool, error) { return m.oldSide.dropAllowed(ctx) }

// NoteContents calls change with the stored progress of dropping old contents, and stores what
// change has made of it. It returns WrongState if there is no migration.
func (m *Migration) NoteContents(ctx context.Context, change func(*OldContents)) error {
	return m.oldSide.noteContents(ctx, change)
}

// DeleteBookkeeping deletes the bookkeeping of a finished migration on the new side. All instances
// must run with the new settings. The old side keeps its rows and refuses writes. early permits
// this while the old side is still being dropped; the rest of it then stays for ever.
func (m *Migration) DeleteBookkeeping(ctx context.Context, early bool) error {
	v, err := m.requireStep(ctx)
	switch {
	case err != nil:
		return err
	case v.Phase != NewOnly:
		return wrongState("the migration has not finished")
	case !v.nearIsHome:
		return wrongState("start the instances with the new database first")
	}
	if err := m.checkAllRestarted(ctx, v); err != nil {
		return err
	}
	if err := m.oldSide.checkNotDropping(ctx, v); err != nil && !(early && drive.IsKind(err, drive.WrongState)) {
		return err
	}
	if err := m.oldSide.runArrived(ctx, v); err != nil {
		return err
	}
	if err := dropTriggers(ctx, *v.primary, m.tablesOrLoad(ctx, v.primary)); err != nil {
		return err
	}
	if err := clearBookkeeping(ctx, *v.primary); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setSnapshot(nil)
	return nil
}

// abort ends a migration in phase 0 or 1. It deletes the replicated rows from the other side, if
// that is the side that was empty at the start. It is idempotent.
func (m *Migration) abort(ctx context.Context, v *snapshot) error {
	// All instances stop applying, and none can enter phase 1 any more.
	if err := updateRecord(ctx, v, func(r *record) { r.Phase = Freeze }); err != nil {
		return err
	}
	if v.Peer != "" {
		if v.other != nil {
			if err := m.clearOther(ctx, v); err != nil {
				return err
			}
		} else if v.Phase != Freeze || v.otherRecord.Migration != "" {
			return wrongState("the other side cannot be reached, or is not the one that was filled: what is on it stays; go back again to forget it")
		}
		if err := dropTriggers(ctx, *v.primary, m.tablesOrLoad(ctx, v.primary)); err != nil {
			return err
		}
	}
	return clearBookkeeping(ctx, *v.primary)
}

// clearOther deletes the triggers, all replicated rows and the bookkeeping of the other side, which
// it first retires so that an applier is refused. It may be called again after an error and
// continues. v.other must be open.
func (m *Migration) clearOther(ctx context.Context, v *snapshot) error {
	if v.otherRecord.Role == secondary {
		to := v.otherRecord
		to.Role = retired // a concurrent applier is refused
		if err := swapRecord(ctx, *v.other, v.otherRecord, to); err != nil {
			return err
		}
	}
	tables := m.tablesFor(v.other)
	if err := dropTriggers(ctx, *v.other, tables); err != nil {
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
	return clearBookkeeping(ctx, *v.other)
}

// deleteSome deletes the first rows of a table by key, within tx, and returns their number; 0 means
// that the table is empty.
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
