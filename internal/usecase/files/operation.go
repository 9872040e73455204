package files

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
)

// Operation is work on many nodes, as the native API shows it.
type Operation struct {
	ID    drive.OperationID `json:"id"`
	State OperationState    `json:"state"`
	Done  int64             `json:"done"`  // nodes dealt with
	Total int64             `json:"total"` // nodes known so far; at least Done
	Error string            `json:"error"` // the problem's code when it failed
}

// OperationState is how far an operation is.
type OperationState string

// The states. An operation ends in exactly one of done and failed.
const (
	Running OperationState = "running"
	Done    OperationState = "done"
	Failed  OperationState = "failed"
)

// operation is the row.
type operation struct {
	Operation
	account drive.AccountID
	user    drive.UserID
	kind    kind
	args    args
	cause   error // why it failed, for a caller that waits; not stored
	ahead   bool  // another run came first, and the next step locks another ledger; not stored
}

// kind is what an operation does.
type kind string

const (
	purgeNode  kind = "purge" // delete one subtree for good
	emptyTrash kind = "empty" // delete what was trashed up to a moment
	copyFolder kind = "copy"  // copy one subtree
)

// args is what an operation was asked to do and how far it came. It is stored as JSON.
type args struct {
	Top    drive.NodeID `json:"top,omitzero"`    // purge: what goes; copy: the top of the branch; handover: the folder that all goes to
	Before drive.Time   `json:"before,omitzero"` // empty: the moment
	Copy   *copyArgs    `json:"copy,omitempty"`
	Hand   *handArgs    `json:"hand,omitempty"`
}

func (f *Files) newOperation(who drive.Who, k kind, a args) operation {
	return operation{
		Operation: Operation{ID: drive.NewID[drive.OperationID](), State: Running},
		account:   who.Account, user: who.User, kind: k, args: a,
	}
}

const selectOperations = "SELECT id, account_id, user_id, kind, args, state, done, total, error FROM operations "

func (f *Files) findOperation(ctx context.Context, q sqldb.Querier, id drive.OperationID) (o operation, err error) {
	var raw string
	err = q.QueryRow(ctx, selectOperations+"WHERE id = ?", id).
		Scan(&o.ID, &o.account, &o.user, &o.kind, &raw, &o.State, &o.Done, &o.Total, &o.Error)
	if err == nil {
		err = json.Unmarshal([]byte(raw), &o.args)
	}
	return o, err
}

// Operation returns an operation of the caller's account, or one that the caller began in another;
// it is there for a week after its end.
func (f *Files) Operation(ctx context.Context, who drive.Who, id drive.OperationID) (Operation, error) {
	o, err := f.findOperation(ctx, f.opt.DB, id)
	if err == nil && o.account != who.Account && o.user != who.User {
		err = drive.Fail(drive.NotFound)
	}
	return o.Operation, err
}

// ListRunning returns up to limit operations that are not finished, in order of id after the one
// given (zero: from the first): what RunOperation is to be called for when the process begins.
func (f *Files) ListRunning(ctx context.Context, after drive.OperationID, limit int) ([]drive.OperationID, error) {
	rows, err := f.opt.DB.Query(ctx, "SELECT id FROM operations WHERE state = 'running' AND id > ? ORDER BY id LIMIT ?",
		after.String(), limit)
	return sqldb.Scan(rows, err, func(id *drive.OperationID, scan func(...any) error) error { return scan(id) })
}

// runningOf returns the operations of an account that have not ended.
func runningOf(ctx context.Context, q sqldb.Querier, account drive.AccountID) ([]operation, error) {
	rows, err := q.Query(ctx, selectOperations+"WHERE account_id = ? AND state = 'running'", account)
	return sqldb.Scan(rows, err, func(o *operation, scan func(...any) error) error {
		var raw string
		if err := scan(&o.ID, &o.account, &o.user, &o.kind, &raw, &o.State, &o.Done, &o.Total, &o.Error); err != nil {
			return err
		}
		return json.Unmarshal([]byte(raw), &o.args)
	})
}

// RunOperation does what is left of an operation and returns when it has ended, well or not. It may
// be called at any time, any number of times, by several callers at once. An error says that it
// could not go on now: call again later.
func (f *Files) RunOperation(ctx context.Context, id drive.OperationID) error {
	_, err := f.run(ctx, id)
	return err
}

// run is RunOperation for a caller that waits for the outcome.
func (f *Files) run(ctx context.Context, id drive.OperationID) (o operation, err error) {
	if err := f.measure(ctx, id); err != nil {
		return o, err
	}
	var cause error
	for o.State == "" || o.State == Running {
		if err := ctx.Err(); err != nil {
			return o, drive.Wrap(err, drive.Unavailable)
		}
		if o, err = f.runOnce(ctx, id); err != nil {
			return o, fmt.Errorf("run operation %v: %w", id, err)
		}
		if o.cause != nil {
			cause = o.cause
		}
	}
	o.cause = cause
	return o, nil
}

// measure counts, before the first background batch, how much there is to do: the call that asked
// stopped counting early.
func (f *Files) measure(ctx context.Context, id drive.OperationID) error {
	o, err := f.findOperation(ctx, f.opt.DB, id)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil || o.State != Running || o.Total != f.opt.Direct+1 {
		return err
	}
	left := int64(0)
	switch o.kind {
	case purgeNode:
		left, err = f.opt.Tree.Count(ctx, f.opt.DB, o.args.Top, math.MaxInt64)
	case emptyTrash:
		left, err = f.opt.Tree.CountTrash(ctx, f.opt.DB, o.account, math.MaxInt64)
	case handOver:
		left, err = f.opt.Tree.Population(ctx, f.opt.DB, o.account)
	case copyFolder:
		if stack := o.args.Copy.Stack; len(stack) > 0 {
			left, err = f.opt.Tree.Count(ctx, f.opt.DB, stack[0].From, math.MaxInt64)
			left -= o.Done
		}
	}
	if err != nil {
		return fmt.Errorf("measure operation %v: %w", id, err)
	}
	return f.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE operations SET total = ? WHERE id = ? AND state = 'running'", o.Done+left, id)
		return err
	})
}

// runOnce does one batch in one transaction, with the record of how far it came. An operation that
// is over is returned as it is; one that is not there was over in its first batch, or its row was
// dropped since: Done.
func (f *Files) runOnce(ctx context.Context, id drive.OperationID) (o operation, err error) {
	var shown bool
	err = f.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if o, err = f.lockOperation(ctx, tx, id); err != nil || o.State != Running || o.ahead {
			return err
		}
		shown = o.args.Copy != nil && o.args.Copy.Shown
		if err := f.step(ctx, tx, &o); err != nil {
			return err
		}
		return f.save(ctx, tx, o)
	})
	switch {
	case terminal(err) && o.kind == copyFolder:
		return f.abandon(ctx, id, func(now bool) bool { return now == shown }, err)
	case Waits(err) && o.kind == handOver:
		return o, noteWait(ctx, f, id, err)
	}
	return o, err
}

// lockOperation reads an operation under the lock on its account, so that two runs of it take
// turns. One that is not there is Done.
func (f *Files) lockOperation(ctx context.Context, tx *sqldb.Tx, id drive.OperationID) (operation, error) {
	o, err := f.findOperation(ctx, tx, id) // whose it is does not change
	if err == nil && tx.Dialect() == sqldb.MySQL {
		locked := o.ledger()
		if err = lockLedgers(ctx, f.opt.Ledger, tx, o); err == nil {
			o, err = f.findOperation(ctx, tx, id)
		}
		o.ahead = o.ledger() != locked
	}
	if drive.IsKind(err, drive.NotFound) {
		return operation{Operation: Operation{ID: id, State: Done}}, nil
	}
	tx.ActFor(drive.Who{User: o.user, Account: o.account})
	return o, err
}

func lockLedgers(ctx context.Context, l quota.Ledger, tx *sqldb.Tx, o operation) error {
	if o.args.Hand != nil {
		return LockBoth(ctx, l, tx, o.args.Hand.From, o.args.Hand.To)
	}
	return l.Lock(ctx, tx, o.ledger())
}

// step does one batch of the operation and changes o to tell of it.
func (f *Files) step(ctx context.Context, tx *sqldb.Tx, o *operation) (err error) {
	var finished bool
	switch o.kind {
	case purgeNode:
		finished, err = f.stepPurge(ctx, tx, o)
	case emptyTrash:
		finished, err = f.stepEmpty(ctx, tx, o)
	case copyFolder:
		finished, err = f.stepCopy(ctx, tx, o)
	case handOver:
		finished, err = stepHand(ctx, f, tx, o)
	default:
		return fmt.Errorf("operation %v is of the unknown kind %q", o.ID, o.kind)
	}
	if err == nil && finished {
		o.State, o.Total = Done, o.Done
		if o.Error != "" {
			o.State = Failed
		}
	}
	return err
}

// begin does the first batch of a new operation in the transaction of the call that asked for it.
// If that is all, no row is written.
func (f *Files) begin(ctx context.Context, tx *sqldb.Tx, o *operation) error {
	if err := f.step(ctx, tx, o); err != nil || o.State != Running {
		return err
	}
	return f.insert(ctx, tx, *o)
}

func (f *Files) save(ctx context.Context, tx *sqldb.Tx, o operation) error {
	raw, err := json.Marshal(o.args)
	if err != nil {
		return err
	}
	o.Total = max(o.Total, o.Done)
	_, err = tx.Exec(ctx, "UPDATE operations SET args = ?, state = ?, done = ?, total = ?, error = ?, updated_at = ? WHERE id = ?",
		string(raw), o.State, o.Done, o.Total, o.Error, f.now(), o.ID)
	return err
}

// finish decides, after the first batch, who does the rest: the caller, when there is little of it,
// or the background. The operation is nil when nothing is left to do.
func (f *Files) finish(ctx context.Context, o operation, nodes int64) (*Operation, error) {
	if o.State != Running {
		return nil, nil
	}
	if nodes > f.opt.Direct {
		f.opt.Start(o.ID)
		return &o.Operation, nil
	}
	ended, err := f.run(ctx, o.ID)
	if err != nil {
		f.opt.Start(o.ID) // what was begun is decided: the background ends it
		return nil, err
	}
	return nil, ended.outcome()
}

// outcome is the error of an operation that failed, with its facts if this process saw it fail.
func (o operation) outcome() error {
	if o.State != Failed || o.cause != nil {
		return o.cause
	}
	return o.Outcome()
}

// Outcome is the error of an operation that failed, without its facts.
func (o Operation) Outcome() error {
	if o.State != Failed {
		return nil
	}
	for _, k := range drive.Kinds() {
		if k.String() == o.Error {
			return drive.Fail(k)
		}
	}
	return drive.Fail(drive.Internal)
}

// terminal reports whether trying again cannot help.
func terminal(err error) bool {
	return drive.IsKind(err, drive.Quota, drive.TooLarge, drive.NameTaken, drive.ParentGone, drive.BadName, drive.Cycle, drive.NotFound, drive.Forbidden,
		drive.Locked, drive.VersionChanged)
}
