package files

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/turn"
)

// Operations runs operations on many nodes, one batch per transaction. A handler implements each
// kind. It is safe for concurrent use.
type Operations struct {
	db       *sqldb.DB
	store    *operationStore
	turns    *turn.LongLimiter
	handlers map[kind]handler
	direct   int64
	start    func(drive.OperationID)
}

// handler implements the operations of one kind.
type handler interface {
	// remaining returns how many nodes are still to be processed, for the progress that users see;
	// it may be an estimate.
	remaining(ctx context.Context, o operation) (int64, error)
	// step processes one batch in tx, which holds the lock on the operation's ledger, and records
	// the progress in o. finished means that no work is left.
	step(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error)
	// handleFailure is called with the error that rolled back a step. It returns the operation's
	// new state; an error means that the step must be retried later.
	handleFailure(ctx context.Context, o operation, cause error) (operation, error)
}

// Find returns an operation of the caller's account, or one that the caller started in another
// account. It fails with NotFound otherwise, and from a week after the operation's end.
func (s *Operations) Find(ctx context.Context, who drive.Who, id drive.OperationID) (Operation, error) {
	o, err := findOperation(ctx, s.db, id)
	if err == nil && o.account != who.Account && o.user != who.User {
		err = drive.Fail(drive.NotFound)
	}
	return o.Operation, err
}

// ListRunning returns up to limit ids of running operations, in ascending order after the given id
// (zero: from the first). At startup the process calls Run for each.
func (s *Operations) ListRunning(ctx context.Context, after drive.OperationID, limit int) ([]drive.OperationID, error) {
	rows, err := s.db.Query(ctx, "SELECT id FROM operations WHERE state = 'running' AND id > ? ORDER BY id LIMIT ?",
		after.String(), limit)
	return sqldb.Scan(rows, err, func(id *drive.OperationID, scan func(...any) error) error { return scan(id) })
}

// Start continues an operation in the background. Call it after the commit of the transaction
// that inserted the operation.
func (s *Operations) Start(id drive.OperationID) { s.start(id) }

// Run processes an operation until it ends, as Done or Failed. Concurrent and repeated calls are
// safe. An error means that the operation cannot continue now: call Run again later.
func (s *Operations) Run(ctx context.Context, id drive.OperationID) error {
	_, err := s.run(ctx, id)
	return err
}

// run is Run and returns the ended operation, whose cause is the error that made it fail. It
// returns Unavailable if ctx ends, and the error of a step that must be retried.
func (s *Operations) run(ctx context.Context, id drive.OperationID) (o operation, err error) {
	if err := s.measure(ctx, id); err != nil {
		return o, err
	}
	var cause error
	for o.State == "" || o.State == Running {
		if err := ctx.Err(); err != nil {
			return o, drive.Wrap(err, drive.Unavailable)
		}
		if o, err = s.runOnce(ctx, id); err != nil {
			return o, fmt.Errorf("run operation %v: %w", id, err)
		}
		if o.cause != nil {
			cause = o.cause
		}
	}
	o.cause = cause
	return o, nil
}

// measure computes the operation's total before its first background batch if the initial count
// stopped at its limit.
func (s *Operations) measure(ctx context.Context, id drive.OperationID) error {
	o, err := findOperation(ctx, s.db, id)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil || o.State != Running || o.Total != s.direct+1 {
		return err
	}
	h, err := s.handlerOf(o)
	if err != nil {
		return err
	}
	left, err := h.remaining(ctx, o)
	if err != nil {
		return fmt.Errorf("measure operation %v: %w", id, err)
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE operations SET total = ? WHERE id = ? AND state = 'running'", o.Done+left, id)
		return err
	})
}

// Step processes one batch of an operation in one transaction and returns its new state. An error
// means that nothing was processed and the caller should call Step again later; an operation that
// cannot succeed ends as failed without an error.
func (s *Operations) Step(ctx context.Context, id drive.OperationID) (Operation, error) {
	o, err := s.runOnce(ctx, id)
	return o.Operation, err
}

// runOnce processes one batch and stores the progress in the same transaction. An operation that
// has ended is returned unchanged. A missing row is Done: the operation ended in its first batch,
// or its row has been purged. After a failed step it returns what the handler's handleFailure does.
func (s *Operations) runOnce(ctx context.Context, id drive.OperationID) (o operation, err error) {
	var failed error
	of, err := findOperation(ctx, s.db, id) // the account of an operation never changes
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return o, err
	}
	err = s.turns.Do(ctx, of.account, func() error {
		return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			failed = nil
			if o, err = s.store.lock(ctx, tx, id); err != nil || o.State != Running || o.ledgerChanged {
				return err
			}
			if failed = s.step(ctx, tx, &o); failed != nil {
				return failed
			}
			return s.store.save(ctx, tx, o)
		})
	})
	if failed != nil && s.handlers[o.kind] != nil {
		return s.handlers[o.kind].handleFailure(ctx, o, err)
	}
	return o, err
}

// handlerOf returns the handler of o.kind, or an error for an unknown kind.
func (s *Operations) handlerOf(o operation) (handler, error) {
	h, known := s.handlers[o.kind]
	if !known {
		return nil, fmt.Errorf("operation %v is of the unknown kind %q", o.ID, o.kind)
	}
	return h, nil
}

// step processes one batch in tx and updates o. An operation that finishes with an error recorded
// is Failed.
func (s *Operations) step(ctx context.Context, tx *sqldb.Tx, o *operation) error {
	h, err := s.handlerOf(*o)
	if err != nil {
		return err
	}
	finished, err := h.step(ctx, tx, o)
	if err == nil && finished {
		o.State, o.Total = Done, o.Done
		if o.Error != "" {
			o.State = Failed
		}
	}
	return err
}

// write runs fn, which calls begin, in a transaction of the account of who, limited by the turns
// for long transactions.
func (s *Operations) write(ctx context.Context, b *accounting, who drive.Who, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return s.turns.Do(ctx, who.Account, func() error { return b.write(ctx, who, fn) })
}

// begin processes the first batch of a new operation in tx and updates o. It inserts a row only if
// work is left (o.State is Running): then the caller must call finish after the commit.
func (s *Operations) begin(ctx context.Context, tx *sqldb.Tx, o *operation) error {
	if err := s.step(ctx, tx, o); err != nil || o.State != Running {
		return err
	}
	return s.store.insert(ctx, tx, *o)
}

// finish continues an operation after its first batch: within the call if nodes is at most
// Options.Direct, else in the background. It returns the operation if that runs in the background,
// nil if it has ended, and the error that a finished operation failed with.
func (s *Operations) finish(ctx context.Context, o operation, nodes int64) (*Operation, error) {
	if o.State != Running {
		return nil, nil
	}
	if nodes > s.direct {
		s.start(o.ID)
		return &o.Operation, nil
	}
	ended, err := s.run(ctx, o.ID)
	if err != nil {
		s.start(o.ID) // the first batch is committed, so the background continues the rest
		return nil, err
	}
	return nil, ended.outcome()
}
