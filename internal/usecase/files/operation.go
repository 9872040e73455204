package files

import (
	"context"
	"encoding/json"

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

func newOperation(who drive.Who, k kind, a args) operation {
	return operation{
		Operation: Operation{ID: drive.NewID[drive.OperationID](), State: Running},
		account:   who.Account, user: who.User, kind: k, args: a,
	}
}

// ledger is the account whose ledger the next step of an operation locks.
func (o operation) ledger() drive.AccountID {
	if c := o.args.Copy; c != nil && c.Shown {
		return c.Away.Account
	}
	return o.account
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

const selectOperations = "SELECT id, account_id, user_id, kind, args, state, done, total, error FROM operations "

func (o *operation) scan(scan func(...any) error) error {
	var raw string
	if err := scan(&o.ID, &o.account, &o.user, &o.kind, &raw, &o.State, &o.Done, &o.Total, &o.Error); err != nil {
		return err
	}
	return json.Unmarshal([]byte(raw), &o.args)
}

func findOperation(ctx context.Context, q sqldb.Querier, id drive.OperationID) (o operation, err error) {
	err = o.scan(q.QueryRow(ctx, selectOperations+"WHERE id = ?", id).Scan)
	return o, err
}

// runningOf returns the operations of an account that have not ended.
func runningOf(ctx context.Context, q sqldb.Querier, account drive.AccountID) ([]operation, error) {
	rows, err := q.Query(ctx, selectOperations+"WHERE account_id = ? AND state = 'running'", account)
	return sqldb.Scan(rows, err, (*operation).scan)
}

// register writes the rows of operations.
type register struct {
	ledger quota.Ledger
	now    func() drive.Time
}

// lock reads an operation under the lock on its account, so that two runs of it take turns. One
// that is not there is Done.
func (r *register) lock(ctx context.Context, tx *sqldb.Tx, id drive.OperationID) (operation, error) {
	o, err := findOperation(ctx, tx, id) // whose it is does not change
	if err == nil && tx.Dialect() == sqldb.MySQL {
		locked := o.ledger()
		if err = r.lockLedgers(ctx, tx, o); err == nil {
			o, err = findOperation(ctx, tx, id)
		}
		o.ahead = o.ledger() != locked
	}
	if drive.IsKind(err, drive.NotFound) {
		return operation{Operation: Operation{ID: id, State: Done}}, nil
	}
	tx.ActFor(drive.Who{User: o.user, Account: o.account})
	return o, err
}

func (r *register) lockLedgers(ctx context.Context, tx *sqldb.Tx, o operation) error {
	if o.args.Hand != nil {
		return LockBoth(ctx, r.ledger, tx, o.args.Hand.From, o.args.Hand.To)
	}
	return r.ledger.Lock(ctx, tx, o.ledger())
}

// insert writes the row of a new operation.
func (r *register) insert(ctx context.Context, tx *sqldb.Tx, o operation) error {
	raw, err := json.Marshal(o.args)
	if err != nil {
		return err
	}
	o.Total = max(o.Total, o.Done)
	_, err = tx.Exec(ctx, `INSERT INTO operations (id, account_id, user_id, kind, args, state, done, total, error, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, o.ID, o.account, o.user.String(), o.kind, string(raw), o.State, o.Done, o.Total,
		o.Error, r.now(), r.now())
	return err
}

// save writes how far an operation is.
func (r *register) save(ctx context.Context, tx *sqldb.Tx, o operation) error {
	raw, err := json.Marshal(o.args)
	if err != nil {
		return err
	}
	o.Total = max(o.Total, o.Done)
	_, err = tx.Exec(ctx, "UPDATE operations SET args = ?, state = ?, done = ?, total = ?, error = ?, updated_at = ? WHERE id = ?",
		string(raw), o.State, o.Done, o.Total, o.Error, r.now(), o.ID)
	return err
}
