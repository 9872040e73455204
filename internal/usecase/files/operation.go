package files

import (
	"context"
	"encoding/json"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Operation is the state of work on many nodes, as the native API shows it.
type Operation struct {
	ID    drive.OperationID
	State OperationState
	Done  int64  // nodes processed
	Total int64  // nodes known so far; at least Done
	Error string // problem code if the operation failed; of a running handover, why it waits
}

// OperationState tells whether an operation is running or how it ended.
type OperationState string

// An operation ends in exactly one of the states Done and Failed.
const (
	Running OperationState = "running"
	Done    OperationState = "done"
	Failed  OperationState = "failed"
)

// operation is an operation as stored in the database, table operations.
type operation struct {
	Operation
	account       drive.AccountID
	user          drive.UserID
	kind          kind
	args          args
	cause         error // error behind Failed, if this process saw it; not stored
	ledgerChanged bool  // another run advanced the operation, so the next step locks another ledger; not stored
}

// kind names the type of work an operation does. It selects the handler and is stored.
type kind string

const (
	purgeNode  kind = "purge" // delete one subtree permanently
	emptyTrash kind = "empty" // delete what was trashed before args.Before
	copyFolder kind = "copy"  // copy one subtree
)

// args holds the arguments and the progress of an operation, stored as JSON.
type args struct {
	Top      drive.NodeID  `json:"top,omitzero"`    // purge: root of the subtree; copy: top of the copy; handover: target folder
	Before   drive.Time    `json:"before,omitzero"` // emptying the trash: only nodes trashed before this time are deleted
	Copy     *copyArgs     `json:"copy,omitempty"`
	Handover *handoverArgs `json:"hand,omitempty"`
}

// newOperation returns a running operation with a new id, not stored yet.
func newOperation(who drive.Who, k kind, a args) operation {
	return operation{
		Operation: Operation{ID: drive.NewID[drive.OperationID](), State: Running},
		account:   who.Account, user: who.User, kind: k, args: a,
	}
}

// nextLedger returns the account whose ledger the next step locks: the source's once a copy of a
// move is complete, else the operation's.
func (o operation) nextLedger() drive.AccountID {
	if c := o.args.Copy; c != nil && c.Shown {
		return c.MoveSource.Account
	}
	return o.account
}

// outcome returns the error of a failed operation, with its arguments if this process saw the
// failure; nil unless it failed.
func (o operation) outcome() error {
	if o.State != Failed || o.cause != nil {
		return o.cause
	}
	return o.Outcome()
}

// Outcome returns the error of a failed operation by its kind, without arguments; nil unless it
// failed.
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

// selectOperations selects the columns of operation.scan; a WHERE clause follows.
const selectOperations = "SELECT id, account_id, user_id, kind, args, state, done, total, error FROM operations "

// scan reads a row of selectOperations into o by calling scan. It returns the error of scan, or
// that of damaged JSON.
func (o *operation) scan(scan func(...any) error) error {
	var raw string
	if err := scan(&o.ID, &o.account, &o.user, &o.kind, &raw, &o.State, &o.Done, &o.Total, &o.Error); err != nil {
		return err
	}
	return json.Unmarshal([]byte(raw), &o.args)
}

// findOperation returns the operation with the id; NotFound if there is no row.
func findOperation(ctx context.Context, q sqldb.Querier, id drive.OperationID) (o operation, err error) {
	err = o.scan(q.QueryRow(ctx, selectOperations+"WHERE id = ?", id).Scan)
	return o, err
}

// findRunning returns the running operations of an account, in no order.
func findRunning(ctx context.Context, q sqldb.Querier, account drive.AccountID) ([]operation, error) {
	rows, err := q.Query(ctx, selectOperations+"WHERE account_id = ? AND state = 'running'", account)
	return sqldb.Scan(rows, err, (*operation).scan)
}

// operationStore writes the rows of operations within the transactions of the caller.
type operationStore struct {
	ledger quota.Ledger
	now    func() drive.Time
}

// lock reads an operation while it holds the lock on the ledger of its next step, which serializes
// concurrent runs. A missing row is returned as Done, without an error. If ledgerChanged is set,
// another ledger must be locked: the caller processes nothing and tries again.
func (s *operationStore) lock(ctx context.Context, tx *sqldb.Tx, id drive.OperationID) (operation, error) {
	o, err := findOperation(ctx, tx, id) // the account of an operation never changes
	if err == nil && tx.Dialect() == sqldb.MySQL {
		locked := o.nextLedger()
		if err = s.lockLedgers(ctx, tx, o); err == nil {
			o, err = findOperation(ctx, tx, id)
		}
		o.ledgerChanged = o.nextLedger() != locked
	}
	if drive.IsKind(err, drive.NotFound) {
		return operation{Operation: Operation{ID: id, State: Done}}, nil
	}
	tx.SetActor(drive.Who{User: o.user, Account: o.account})
	return o, err
}

// lockLedgers locks, within tx, the ledgers that the next step of o changes: both of a handover,
// else one.
func (s *operationStore) lockLedgers(ctx context.Context, tx *sqldb.Tx, o operation) error {
	if o.args.Handover != nil {
		return LockBoth(ctx, s.ledger, tx, o.args.Handover.From, o.args.Handover.To)
	}
	return s.ledger.Lock(ctx, tx, o.nextLedger())
}

// insert inserts the row of a new operation within tx. Total is stored as Done if it is less.
func (s *operationStore) insert(ctx context.Context, tx *sqldb.Tx, o operation) error {
	raw, err := json.Marshal(o.args)
	if err != nil {
		return err
	}
	o.Total = max(o.Total, o.Done)
	_, err = tx.Exec(ctx, `INSERT INTO operations (id, account_id, user_id, kind, args, state, done, total, error, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, o.ID, o.account, o.user.String(), o.kind, string(raw), o.State, o.Done, o.Total,
		o.Error, s.now(), s.now())
	return err
}

// save updates arguments, state and progress of an operation within tx. Total is stored as Done if
// it is less. A missing row is no error.
func (s *operationStore) save(ctx context.Context, tx *sqldb.Tx, o operation) error {
	raw, err := json.Marshal(o.args)
	if err != nil {
		return err
	}
	o.Total = max(o.Total, o.Done)
	_, err = tx.Exec(ctx, "UPDATE operations SET args = ?, state = ?, done = ?, total = ?, error = ?, updated_at = ? WHERE id = ?",
		string(raw), o.State, o.Done, o.Total, o.Error, s.now(), o.ID)
	return err
}
