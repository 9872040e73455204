package files

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/turn"
)

// Operations run work on many nodes, a batch in each transaction, whatever it is that they do: see
// work. It is safe for concurrent use.
type Operations struct {
	db     *sqldb.DB
	rows   *register
	turns  *turn.Long
	works  map[kind]work
	direct int64
	start  func(drive.OperationID)
}

// work is what the operations of one kind do.
type work interface {
	// left counts what there is to do still.
	left(ctx context.Context, o operation) (int64, error)
	// step does one batch in tx, which has the lock of the operation, and changes o to tell of it.
	// finished: nothing is left.
	step(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error)
	// failed is told why the transaction of a step was undone, and returns what has become of the
	// operation. An error says that it stays and is to be tried again later.
	failed(ctx context.Context, o operation, cause error) (operation, error)
}

// Find returns an operation of the caller's account, or one that the caller began in another; it is
// there for a week after its end.
func (s *Operations) Find(ctx context.Context, who drive.Who, id drive.OperationID) (Operation, error) {
	o, err := findOperation(ctx, s.db, id)
	if err == nil && o.account != who.Account && o.user != who.User {
		err = drive.Fail(drive.NotFound)
	}
	return o.Operation, err
}

// ListRunning returns up to limit operations that are not finished, in order of id after the one
// given (zero: from the first): what Run is to be called for when the process begins.
func (s *Operations) ListRunning(ctx context.Context, after drive.OperationID, limit int) ([]drive.OperationID, error) {
	rows, err := s.db.Query(ctx, "SELECT id FROM operations WHERE state = 'running' AND id > ? ORDER BY id LIMIT ?",
		after.String(), limit)
	return sqldb.Scan(rows, err, func(id *drive.OperationID, scan func(...any) error) error { return scan(id) })
}

// Start lets an operation that a transaction has begun go on in the background, after the commit.
func (s *Operations) Start(id drive.OperationID) { s.start(id) }

// Run does what is left of an operation and returns when it has ended, well or not. It may be
// called at any time, any number of times, by several callers at once. An error says that it could
// not go on now: call again later.
func (s *Operations) Run(ctx context.Context, id drive.OperationID) error {
	_, err := s.run(ctx, id)
	return err
}

// run is Run for a caller that waits for the outcome.
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

// measure counts, before the first background batch, how much there is to do: the call that asked
// stopped counting early.
func (s *Operations) measure(ctx context.Context, id drive.OperationID) error {
	o, err := findOperation(ctx, s.db, id)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil || o.State != Running || o.Total != s.direct+1 {
		return err
	}
	work, err := s.workOf(o)
	if err != nil {
		return err
	}
	left, err := work.left(ctx, o)
	if err != nil {
		return fmt.Errorf("measure operation %v: %w", id, err)
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE operations SET total = ? WHERE id = ? AND state = 'running'", o.Done+left, id)
		return err
	})
}

// Step does one batch of an operation and returns how far it is.
func (s *Operations) Step(ctx context.Context, id drive.OperationID) (Operation, error) {
	o, err := s.runOnce(ctx, id)
	return o.Operation, err
}

// runOnce does one batch in one transaction, with the record of how far it came. An operation that
// is over is returned as it is; one that is not there was over in its first batch, or its row was
// dropped since: Done.
func (s *Operations) runOnce(ctx context.Context, id drive.OperationID) (o operation, err error) {
	var failed error
	of, err := findOperation(ctx, s.db, id) // whose it is does not change
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return o, err
	}
	err = s.turns.Do(ctx, of.account, func() error {
		return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			failed = nil
			if o, err = s.rows.lock(ctx, tx, id); err != nil || o.State != Running || o.ahead {
				return err
			}
			if failed = s.step(ctx, tx, &o); failed != nil {
				return failed
			}
			return s.rows.save(ctx, tx, o)
		})
	})
	if failed != nil && s.works[o.kind] != nil {
		return s.works[o.kind].failed(ctx, o, err)
	}
	return o, err
}

func (s *Operations) workOf(o operation) (work, error) {
	work, known := s.works[o.kind]
	if !known {
		return nil, fmt.Errorf("operation %v is of the unknown kind %q", o.ID, o.kind)
	}
	return work, nil
}

// step does one batch of the operation and changes o to tell of it.
func (s *Operations) step(ctx context.Context, tx *sqldb.Tx, o *operation) error {
	work, err := s.workOf(*o)
	if err != nil {
		return err
	}
	finished, err := work.step(ctx, tx, o)
	if err == nil && finished {
		o.State, o.Total = Done, o.Done
		if o.Error != "" {
			o.State = Failed
		}
	}
	return err
}

// write runs fn, which calls begin, in a transaction of the caller's account, in its turn.
func (s *Operations) write(ctx context.Context, b *books, who drive.Who, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return s.turns.Do(ctx, who.Account, func() error { return b.write(ctx, who, fn) })
}

// begin does the first batch of a new operation in the transaction of the call that asked for it.
// If that is all, no row is written.
func (s *Operations) begin(ctx context.Context, tx *sqldb.Tx, o *operation) error {
	if err := s.step(ctx, tx, o); err != nil || o.State != Running {
		return err
	}
	return s.rows.insert(ctx, tx, *o)
}

// finish decides, after the first batch, who does the rest: the caller, when there is little of it,
// or the background. The operation is nil when nothing is left to do.
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
		s.start(o.ID) // what was begun is decided: the background ends it
		return nil, err
	}
	return nil, ended.outcome()
}
