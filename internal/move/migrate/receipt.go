package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Whether both sides still have what the other one counts on. A server may fail over to a replica
// that lacks its last commits: what is lost is in no list any more, and a comparison that was made
// before is equal.
//
//	secondary   brings changes, and counts that, in one transaction    migration_notes 'applied'
//	primary     forgets them, and keeps what was counted, in another   migration_notes 'acknowledged'
//
// A secondary that has counted less than the primary was told has lost commits. So has one that has
// counted as much and brought something else; each count has a name of its own for that.
//
// The secondary notes what the primary had been told by then, and which changes it was brought
// since. A primary that was told less, or that has neither been told of those changes nor has them
// in its list, has lost commits. Their numbers may come again, for other changes: so it is looked
// for which row each is of, and what comes again for the same row is brought again.

// receipt is what the primary keeps, and what the secondary's note begins with.
type receipt struct {
	Term  int64  `json:"term"`
	Count int64  `json:"count"` // of the transactions of this term that brought changes
	Name  string `json:"name"`
}

// counted is the note of the secondary.
type counted struct {
	receipt
	Told    receipt   `json:"told"`    // what the primary had been told when these were brought
	Brought []brought `json:"brought"` // since then, and so in the primary's list until it is told
}

// brought are changes that one transaction brought first.
type brought struct {
	Count int64   `json:"count"` // of the receipt
	Seqs  []int64 `json:"seqs"`  // in their order
	Rows  string  `json:"rows"`  // a digest of which rows these are of
}

const (
	noteApplied      = "applied"
	noteAcknowledged = "acknowledged"
)

// errLost says that the secondary lacks commits that it had acknowledged. Nothing is brought to it
// any more, nothing is read from it, and it does not become the primary.
var errLost error = drive.Wrap(errors.New("the other side has lost changes that it had acknowledged: its server has failed over, "+
	"or was put back to an older state. Bring back the server that had them, or go back and begin again"), drive.WrongState)

// errRewound says that the primary lacks commits that the secondary was brought. The same holds.
var errRewound error = drive.Wrap(errors.New("the side in use has lost changes that the other side was brought: its server has failed over, "+
	"or was put back to an older state. Bring back the server that had them, or go back and begin again"), drive.WrongState)

func isLoss(err error) bool { return errors.Is(err, errLost) || errors.Is(err, errRewound) }

// holds reports whether who has r has what the other side counts on.
func (r receipt) holds(told receipt) bool {
	switch {
	case told.Term != r.Term || told.Count < r.Count:
		return true
	case told.Count == r.Count:
		return told.Name == r.Name
	}
	return false
}

// inTerm is a receipt as it counts in a term: those of another one say nothing.
func (r receipt) inTerm(term int64) receipt {
	if r.Term != term {
		return receipt{Term: term}
	}
	return r
}

func (r receipt) next() receipt {
	return receipt{Term: r.Term, Count: r.Count + 1, Name: drive.NewID[drive.OperationID]().String()}
}

// next is the note of a transaction that brings these changes.
func (c counted) next(changes []change) counted {
	n := counted{receipt: c.receipt.next(), Told: c.Told, Brought: c.Brought}
	known := map[int64]bool{}
	for _, b := range c.Brought {
		for _, seq := range b.Seqs {
			known[seq] = true
		}
	}
	changes = slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return known[c.seq] })
	if len(changes) > 0 {
		n.Brought = append(slices.Clone(c.Brought), broughtBy(n.Count, changes))
	}
	return n
}

func broughtBy(count int64, changes []change) brought {
	b := brought{Count: count}
	var rows []string
	for _, c := range changes {
		b.Seqs = append(b.Seqs, c.seq)
		rows = append(rows, c.table, c.key)
	}
	b.Rows = sum(rows...)
	return b
}

// checkReceipts reads what the primary was told and then what the secondary, asked by q, has, and
// compares that with what the primary has afterwards.
func (a *applier) checkReceipts(ctx context.Context, from *sqldb.DB, q sqldb.Querier, term int64) (has counted, err error) {
	told, err := toldOf(ctx, from, term)
	if err != nil {
		return counted{}, err
	}
	if err := readNote(ctx, q, noteApplied, &has); err != nil {
		return counted{}, err
	}
	if has.Term != term {
		has = counted{receipt: receipt{Term: term}, Told: receipt{Term: term}}
	}
	if !has.holds(told) {
		err = errLost
	} else {
		has.Told, has.Brought, err = checkPrimary(ctx, from, has)
	}
	if err != nil && !isLoss(err) {
		return has, err
	}
	if lost := err != nil; a.lost.Swap(lost) != lost && lost {
		a.log.ErrorContext(ctx, "the two sides of the migration do not count on the same changes any more", "error", err, "told", told.Count, "has", has.Count)
	}
	return has, err
}

// toldOf is what a primary was told in a term.
func toldOf(ctx context.Context, from *sqldb.DB, term int64) (told receipt, err error) {
	err = readNote(ctx, from, noteAcknowledged, &told)
	return told.inTerm(term), err
}

// checkPrimary asks whether the primary has what the secondary was brought: it was told of it, or
// has it in its list. It returns what it was told, and what is in its list therefore.
func checkPrimary(ctx context.Context, from *sqldb.DB, has counted) (receipt, []brought, error) {
	for {
		told, err := toldOf(ctx, from, has.Term)
		if err != nil {
			return told, nil, err
		}
		if !told.holds(has.Told.inTerm(has.Term)) {
			return told, nil, errRewound
		}
		since := slices.DeleteFunc(slices.Clone(has.Brought), func(b brought) bool { return b.Count <= told.Count })
		whole, err := isPending(ctx, from, since)
		if err != nil || whole {
			return told, since, err
		}
		again, err := toldOf(ctx, from, has.Term)
		if err == nil && again == told { // nobody has taken them out of the list meanwhile
			err = errRewound
		}
		if err != nil {
			return told, nil, err
		}
	}
}

// isPending reports whether changes are in the primary's list, of the rows that they were of.
func isPending(ctx context.Context, from *sqldb.DB, all []brought) (bool, error) {
	for _, b := range all {
		args := make([]any, len(b.Seqs))
		for i, seq := range b.Seqs {
			args[i] = seq
		}
		found, err := changesOf(ctx, from, "WHERE seq IN ("+sqldb.Marks(len(args))+") ORDER BY seq", args...)
		if err != nil || broughtBy(b.Count, found).Rows != b.Rows {
			return false, err
		}
	}
	return true, nil
}

// lookForLoss finds out, where nothing is to be brought, whether both sides are what they were.
func (a *applier) lookForLoss(ctx context.Context, v *view) error {
	if v.near == nil || v.other == nil || v.Phase < Second || v.Phase > WriteNew {
		return nil
	}
	_, err := a.checkReceipts(ctx, v.near.DB, v.other.DB, v.far.Term)
	return err
}

// checkLoss is lookForLoss as a gate.
func (k *gatekeeper) checkLoss(ctx context.Context, v *view) (Gate, error) {
	g := Gate{Name: "acknowledged", OK: true, Detail: "both sides have what was acknowledged"}
	err := k.apply.lookForLoss(ctx, v)
	switch {
	case errors.Is(err, errLost):
		g.OK, g.Detail, err = false, "the other side has lost changes that it had acknowledged", nil
	case errors.Is(err, errRewound):
		g.OK, g.Detail, err = false, "the side in use has lost changes that the other side was brought", nil
	}
	return g, err
}

// acknowledge keeps, in the transaction in which the primary forgets changes, what the secondary
// has counted. It reports whether they may be forgotten: where another process was told of a later
// count already, it cannot be known whether that has the same history. They are brought once more
// then.
func acknowledge(ctx context.Context, tx *sqldb.Tx, r receipt) (bool, error) {
	var text string
	err := tx.QueryRow(ctx, "SELECT value FROM migration_notes WHERE name = ?"+tx.ForUpdate(), noteAcknowledged).Scan(&text)
	if drive.IsKind(err, drive.NotFound) { // nothing is locked: another process may be here, too
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

func acknowledgeFirst(ctx context.Context, tx *sqldb.Tx, r receipt) (bool, error) {
	made, err := insertNote(ctx, tx, noteAcknowledged, r)
	if err == nil && !made {
		err = sqldb.Again(errors.New("another process was told before"))
	}
	return made, err
}
