package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Receipts detect that a side has lost commits. A server may fail over to a replica that lacks its
// last commits: the lost changes are in no list any more, and an earlier comparison still counts as
// equal.
//
//	secondary   applies changes, and counts that, in one transaction     migration_notes 'applied'
//	primary     deletes them, and stores that count, in another          migration_notes 'acknowledged'
//
// A secondary that has counted less than the primary has stored has lost commits, and so has one
// with the same count under another name.
//
// The secondary also notes the receipt that the primary had stored at that time, and the changes
// applied since. A primary that has stored less, or that has those changes neither acknowledged nor
// in its list, has lost commits. A primary that lost commits may assign their change numbers again.
// So the note has a digest of the rows of the changes, and a repeated number for the same row is
// applied again.

// receipt identifies the state of the secondary after a transaction that applied changes. The
// secondary stores it in that transaction, and the primary when it deletes the changes. Comparing
// both detects a side that was restored to an older state.
type receipt struct {
	Term  int64 `json:"term"`
	Count int64 `json:"count"` // number of transactions of this term that applied changes
	// Name is unique for each count.
	Name string `json:"name"`
}

// appliedNote is the note of the secondary.
type appliedNote struct {
	receipt
	Told    receipt          `json:"told"`    // receipt stored by the primary when the changes were applied
	Brought []appliedChanges `json:"brought"` // changes applied since Told, so still in the primary's list
}

// appliedChanges are the changes that one transaction applied for the first time.
type appliedChanges struct {
	Count int64   `json:"count"` // count of the receipt of that transaction
	Seqs  []int64 `json:"seqs"`  // change numbers in order
	Rows  string  `json:"rows"`  // digest of the tables and keys of the changes
}

const (
	// noteApplied names the note of the secondary with the receipt for the changes it has applied.
	noteApplied = "applied"
	// noteAcknowledged names the note of the primary with the last receipt that the secondary has
	// acknowledged.
	noteAcknowledged = "acknowledged"
)

// errLost reports that the secondary lacks commits that it had acknowledged. No changes are
// applied, no reads use it, and it cannot become the primary.
var errLost error = drive.Wrap(errors.New("the other side has lost changes that it had acknowledged: its server has failed over, "+
	"or was put back to an older state. Bring back the server that had them, or go back and begin again"), drive.WrongState)

// errRewound reports that the primary lacks commits that the secondary has applied. The
// consequences are those of errLost.
var errRewound error = drive.Wrap(errors.New("the side in use has lost changes that the other side was brought: its server has failed over, "+
	"or was put back to an older state. Bring back the server that had them, or go back and begin again"), drive.WrongState)

// isLoss reports whether err proves that a side has lost changes: errLost or errRewound.
func isLoss(err error) bool { return errors.Is(err, errLost) || errors.Is(err, errRewound) }

// covers reports whether a side whose last receipt is r has everything that told acknowledges. It
// is true for a told of another term, which says nothing.
func (r receipt) covers(told receipt) bool {
	switch {
	case told.Term != r.Term || told.Count < r.Count:
		return true
	case told.Count == r.Count:
		return told.Name == r.Name
	}
	return false
}

// inTerm returns r, or an empty receipt of the term if r is of another term.
func (r receipt) inTerm(term int64) receipt {
	if r.Term != term {
		return receipt{Term: term}
	}
	return r
}

// next returns the receipt of the next transaction: one count more, with a new random name that a
// restored side cannot repeat.
func (r receipt) next() receipt {
	return receipt{Term: r.Term, Count: r.Count + 1, Name: drive.NewID[drive.OperationID]().String()}
}

// next returns the note of a transaction that applies these changes; changes that an earlier note
// lists are not listed again. It writes nothing.
func (c appliedNote) next(changes []change) appliedNote {
	n := appliedNote{receipt: c.receipt.next(), Told: c.Told, Brought: c.Brought}
	known := map[int64]bool{}
	for _, b := range c.Brought {
		for _, seq := range b.Seqs {
			known[seq] = true
		}
	}
	changes = slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return known[c.seq] })
	if len(changes) > 0 {
		n.Brought = append(slices.Clone(c.Brought), newAppliedChanges(n.Count, changes))
	}
	return n
}

// newAppliedChanges returns the record of changes applied by the transaction with the given count.
func newAppliedChanges(count int64, changes []change) appliedChanges {
	b := appliedChanges{Count: count}
	var rows []string
	for _, c := range changes {
		b.Seqs = append(b.Seqs, c.seq)
		rows = append(rows, c.table, c.key)
	}
	b.Rows = hashParts(rows...)
	return b
}

// checkReceipts compares the receipts of both sides. q reads the secondary. It returns the
// secondary's note, and errLost or errRewound if a side has lost commits.
func (a *applier) checkReceipts(ctx context.Context, from *sqldb.DB, q sqldb.Querier, term int64) (has appliedNote, err error) {
	told, err := storedReceipt(ctx, from, term)
	if err != nil {
		return appliedNote{}, err
	}
	if err := readNote(ctx, q, noteApplied, &has); err != nil {
		return appliedNote{}, err
	}
	if has.Term != term {
		has = appliedNote{receipt: receipt{Term: term}, Told: receipt{Term: term}}
	}
	if !has.covers(told) {
		err = errLost
	} else {
		has.Told, has.Brought, err = checkPrimary(ctx, from, has)
	}
	if err != nil && !isLoss(err) {
		return has, err
	}
	if lost := err != nil; a.lost.Swap(lost) != lost && lost {
		a.log.ErrorContext(ctx, "a side of the migration has lost commits; no more changes are applied until the lost state is restored or the migration is rolled back", "error", err, "told", told.Count, "has", has.Count)
	}
	return has, err
}

// storedReceipt returns the receipt that the primary from has stored in a term; the zero receipt if
// there is none or it is of another term.
func storedReceipt(ctx context.Context, from *sqldb.DB, term int64) (told receipt, err error) {
	err = readNote(ctx, from, noteAcknowledged, &told)
	return told.inTerm(term), err
}

// checkPrimary checks that the primary has acknowledged, or still has in its list, each change that
// the secondary has applied. It returns the primary's receipt and the changes still in its list, or
// errRewound.
func checkPrimary(ctx context.Context, from *sqldb.DB, has appliedNote) (receipt, []appliedChanges, error) {
	for {
		told, err := storedReceipt(ctx, from, has.Term)
		if err != nil {
			return told, nil, err
		}
		if !told.covers(has.Told.inTerm(has.Term)) {
			return told, nil, errRewound
		}
		since := slices.DeleteFunc(slices.Clone(has.Brought), func(b appliedChanges) bool { return b.Count <= told.Count })
		whole, err := isPending(ctx, from, since)
		if err != nil || whole {
			return told, since, err
		}
		again, err := storedReceipt(ctx, from, has.Term)
		if err == nil && again == told { // no other process has deleted them meanwhile
			err = errRewound
		}
		if err != nil {
			return told, nil, err
		}
	}
}

// isPending reports whether the changes that all lists are still in migration_changes of the
// primary from, for the same rows.
func isPending(ctx context.Context, from *sqldb.DB, all []appliedChanges) (bool, error) {
	for _, b := range all {
		args := make([]any, len(b.Seqs))
		for i, seq := range b.Seqs {
			args[i] = seq
		}
		found, err := changesOf(ctx, from, "WHERE seq IN ("+sqldb.Placeholders(len(args))+") ORDER BY seq", args...)
		if err != nil || newAppliedChanges(b.Count, found).Rows != b.Rows {
			return false, err
		}
	}
	return true, nil
}

// checkReceiptsNow compares the receipts of both sides without applying a change. It returns
// errLost or errRewound if a side has lost changes, and nil in phases without receipts or while a
// side is closed.
func (a *applier) checkReceiptsNow(ctx context.Context, v *snapshot) error {
	if v.primary == nil || v.other == nil || v.Phase < DualWrite || v.Phase > WriteNew {
		return nil
	}
	_, err := a.checkReceipts(ctx, v.primary.DB, v.other.DB, v.otherRecord.Term)
	return err
}

// checkLoss returns the gate "acknowledged", which is closed if checkReceiptsNow finds a loss. Its
// other errors are returned.
func (k *gatekeeper) checkLoss(ctx context.Context, v *snapshot) (Gate, error) {
	g := Gate{Name: "acknowledged", OK: true, Detail: "both sides have what was acknowledged"}
	err := k.apply.checkReceiptsNow(ctx, v)
	switch {
	case errors.Is(err, errLost):
		g.OK, g.Detail, err = false, "the other side has lost changes that it had acknowledged", nil
	case errors.Is(err, errRewound):
		g.OK, g.Detail, err = false, "the side in use has lost changes that the other side was brought", nil
	}
	return g, err
}

// acknowledge stores the secondary's receipt r on the primary, within the transaction that deletes
// the applied changes. It reports whether they may be deleted. If another process has stored a
// later receipt, the histories may differ: they must not be, and are applied again.
func acknowledge(ctx context.Context, tx *sqldb.Tx, r receipt) (bool, error) {
	var text string
	err := tx.QueryRow(ctx, "SELECT value FROM migration_notes WHERE name = ?"+tx.ForUpdate(), noteAcknowledged).Scan(&text)
	if drive.IsKind(err, drive.NotFound) { // no row is locked: another process may insert it concurrently
		return acknowledgeFirst(ctx, tx, r)
	}
	var told receipt
	if err == nil {
		err = json.Unmarshal([]byte(text), &told)
	}
	if err != nil {
		return false, fmt.Errorf("read what the other side has acknowledged: %w", err)
	}
	if told.Term == r.Term && told.Count >= r.Count {
		return told == r, nil
	}
	return true, writeNote(ctx, tx, noteAcknowledged, r)
}

// acknowledgeFirst inserts the first receipt within tx and returns true. If another process
// inserted one concurrently, it returns an error that makes the transaction run again.
func acknowledgeFirst(ctx context.Context, tx *sqldb.Tx, r receipt) (bool, error) {
	made, err := insertNote(ctx, tx, noteAcknowledged, r)
	if err == nil && !made {
		err = sqldb.Rerun(errors.New("another process was told before"))
	}
	return made, err
}
