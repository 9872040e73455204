package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Whether the secondary still has what it has acknowledged. A server may fail over to a replica
// that lacks its last commits: the changes are no longer in the list of the primary, and a
// comparison that was made before is equal.
//
//	secondary   brings changes, and counts that, in one transaction    migration_notes 'applied'
//	primary     forgets them, and keeps what was counted, in another   migration_notes 'acknowledged'
//
// A secondary that has counted less than the primary was told has lost commits. So has one that has
// counted as much and brought something else; each count has a name of its own for that.

// receipt is one of the two notes.
type receipt struct {
	Term  int64  `json:"term"`
	Count int64  `json:"count"` // of the transactions of this term that brought changes
	Name  string `json:"name"`
}

const (
	noteApplied      = "applied"
	noteAcknowledged = "acknowledged"
)

// errLost says that the secondary lacks commits that it had acknowledged. Nothing is brought to it
// any more, nothing is read from it, and it does not become the primary.
var errLost error = drive.Wrap(errors.New("the other side has lost changes that it had acknowledged: its server has failed over, "+
	"or was put back to an older state. Bring back the server that had them, or go back and begin again"), drive.WrongState)

// holds reports whether a secondary that has counted r has what the primary was told.
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

// checkReceipts reads what the primary was told and then what the secondary, asked by q, has.
func (a *applier) checkReceipts(ctx context.Context, from *sqldb.DB, q sqldb.Querier, term int64) (has receipt, err error) {
	var told receipt
	if err := readNote(ctx, from, noteAcknowledged, &told); err != nil {
		return receipt{}, err
	}
	if err := readNote(ctx, q, noteApplied, &has); err != nil {
		return receipt{}, err
	}
	has = has.inTerm(term)
	lost := !has.holds(told.inTerm(term))
	if a.lost.Swap(lost) != lost && lost {
		a.log.ErrorContext(ctx, "the other side of the migration has lost changes that it had acknowledged", "told", told.Count, "has", has.Count)
	}
	if lost {
		return has, errLost
	}
	return has, nil
}

// lookForLoss finds out, where nothing is to be brought, whether the secondary is what it was.
func (a *applier) lookForLoss(ctx context.Context, v *view) error {
	if v.near == nil || v.other == nil || v.Phase < Second || v.Phase > WriteNew {
		return nil
	}
	_, err := a.checkReceipts(ctx, v.near.DB, v.other.DB, v.far.Term)
	return err
}

// checkLoss is lookForLoss as a gate.
func (k *gatekeeper) checkLoss(ctx context.Context, v *view) (Gate, error) {
	g := Gate{Name: "acknowledged", OK: true, Detail: "the other side has what it has acknowledged"}
	err := k.apply.lookForLoss(ctx, v)
	if errors.Is(err, errLost) {
		g.OK, g.Detail, err = false, "the other side has lost changes that it had acknowledged", nil
	}
	return g, err
}

// acknowledge keeps, in the transaction in which the primary forgets changes, what the secondary
// has counted. It reports whether they may be forgotten: where another process was told of a later
// count already, it cannot be known whether that has the same history. They are brought once more
// then.
func acknowledge(ctx context.Context, tx *sqldb.Tx, r receipt) (bool, error) {
	var text string
	var told receipt
	err := tx.QueryRow(ctx, "SELECT value FROM migration_notes WHERE name = ?"+tx.ForUpdate(), noteAcknowledged).Scan(&text)
	if err == nil {
		err = json.Unmarshal([]byte(text), &told)
	}
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return false, fmt.Errorf("read what the other side has acknowledged: %w", err)
	}
	if told.Term == r.Term && told.Count >= r.Count {
		return told == r, nil
	}
	return true, writeNote(ctx, tx, noteAcknowledged, r)
}
