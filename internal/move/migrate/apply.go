package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	applyBatch      = 500              // most changes applied in one transaction
	applyBytes      = 4 << 20          // approximate bytes of their rows, which are in memory and sent in one transaction
	firstRead       = 32               // rows read before their size is known
	secondWriteWait = time.Second      // time a writer waits for its second write
	applyTimeout    = 15 * time.Second // timeout of a batch
	termBits        = 40               // low bits of a version that hold the change number; the term is above them
)

// applier applies changes of the primary to the secondary, one batch at a time. Callers that wait
// while a pass runs share the next pass.
type applier struct {
	*sides
	lost    atomic.Bool // a side lacks what the other one counts on
	workers sync.WaitGroup

	mu      sync.Mutex
	next    *pass // the pass for new waiters; starts after the current one
	running bool  // the worker goroutine runs
	failing bool  // the last pass failed: writers do not wait
	closed  bool  // no pass starts any more
}

// pass is one run of the applier over all pending changes. done is closed when err is set.
type pass struct {
	done chan struct{} // closed when the pass has ended; then err is valid
	err  error
}

// applyBriefly applies the pending changes and reports whether that succeeded within
// secondWriteWait. If the last pass failed, it returns false at once.
func (a *applier) applyBriefly(ctx context.Context) bool {
	a.mu.Lock()
	failing := a.failing
	p := a.joinLocked()
	a.mu.Unlock()
	if failing || p == nil {
		return false
	}
	timer := time.NewTimer(secondWriteWait)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err == nil
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// applyPending applies all changes that are pending now and waits for the result. If ctx ends it
// returns Unavailable, while the pass continues. It returns Stopping after close, and errLost or
// errRewound if a side has lost changes.
func (a *applier) applyPending(ctx context.Context) error {
	a.mu.Lock()
	p := a.joinLocked()
	a.mu.Unlock()
	if p == nil {
		return drive.Fail(drive.Stopping)
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	}
}

// joinLocked returns the next pass, for whose done channel the caller waits, and starts the worker
// if it is not running. It returns nil after close. The caller holds mu.
func (a *applier) joinLocked() *pass {
	if a.closed {
		return nil
	}
	if a.next == nil {
		a.next = &pass{done: make(chan struct{})}
	}
	if !a.running {
		a.running = true
		a.workers.Go(a.work)
	}
	return a.next
}

// work runs passes over the pending changes, one after another, until no caller waits for a pass.
// It sets the error of each pass and closes its done channel. It runs in a goroutine of its own, of
// which there is one at a time.
func (a *applier) work() {
	for {
		a.mu.Lock()
		p := a.next
		a.next = nil
		a.running = p != nil
		a.mu.Unlock()
		if p == nil {
			return
		}
		applied := a.applyAll(func(err error) {
			p.err = err
			a.mu.Lock()
			a.failing = err != nil
			a.mu.Unlock()
			close(p.done)
		})
		a.deleteApplied(applied)
	}
}

// close waits for the running pass. Afterwards applyBriefly returns false and applyPending returns
// Stopping.
func (a *applier) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.workers.Wait()
}

// applyAll applies all changes pending at its start and calls done with nil or the error that
// stopped it. It returns the last batch, whose changes are still in the list; nil: nothing was
// pending, or the changes of the last batch were not deleted. Each batch has its own timeout; while
// batches succeed, waiting writers slow down new changes.
func (a *applier) applyAll(done func(error)) *appliedBatch {
	for {
		if a.isClosed() {
			done(drive.Fail(drive.Stopping))
			return nil
		}
		last, err := a.timed(a.applyBatch)
		if err != nil || last == nil || !last.more {
			done(err)
			return last
		}
		_, err = a.timed(func(ctx context.Context) (*appliedBatch, error) { return nil, last.deleteChanges(ctx) })
		if err != nil {
			done(err)
			return nil
		}
	}
}

// isClosed reports whether close was called, after which no pass starts.
func (a *applier) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// timed returns the results of f, whose context ends after applyTimeout and not with that of a
// request.
func (a *applier) timed(f func(context.Context) (*appliedBatch, error)) (*appliedBatch, error) {
	ctx, cancel := context.WithTimeout(context.Background(), applyTimeout)
	defer cancel()
	return f(ctx)
}

// deleteApplied deletes applied changes from the list. If that fails, they are applied again, which
// is harmless.
func (a *applier) deleteApplied(done *appliedBatch) {
	if done == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), applyTimeout)
	defer cancel()
	if err := done.deleteChanges(ctx); err != nil {
		a.log.WarnContext(ctx, "applied changes could not be deleted from the change list; they will be applied again", "error", err)
	}
}

// appliedBatch is a batch of changes that the secondary has applied.
type appliedBatch struct {
	from    *Side
	seqs    []any   // of the applied changes, to be deleted
	receipt receipt // receipt of the secondary for the batch
	more    bool    // more changes were pending
}

// deleteChanges records the receipt on the primary and deletes the changes of the batch there, in
// one transaction.
func (a *appliedBatch) deleteChanges(ctx context.Context) error {
	if len(a.seqs) == 0 {
		return nil
	}
	return a.from.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		may, err := acknowledge(ctx, tx, a.receipt)
		if err != nil || !may {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM migration_changes WHERE seq IN ("+sqldb.Placeholders(len(a.seqs))+")", a.seqs...)
		return err
	})
}

// change is a row of migration_changes: the row of table with that key was inserted, changed or
// deleted. seq orders the changes.
type change struct {
	seq   int64
	table string
	key   string
}

// applyBatch applies one batch of pending changes. It returns nil without an error if nothing moves
// or there is no other side, Unavailable if the other side cannot be reached, and errMoved during a
// switch.
func (a *applier) applyBatch(ctx context.Context) (*appliedBatch, error) {
	v := a.currentSnapshot()
	if v == nil || v.Peer == "" || v.Phase == NewOnly {
		return nil, nil
	}
	from, to := v.primary, v.other
	if v.primary == nil { // during a switch: the switching process drains the fenced side
		return nil, errMoved
	}
	if to == nil {
		return nil, drive.Wrap(errors.New("the other side cannot be reached"), drive.Unavailable)
	}
	return a.applyFrom(ctx, v.record, from, to)
}

// applyFrom applies one batch of pending changes of from to the side to. It locks the row of to, so
// that batches never overlap, and reads the pending changes under that lock. The changes stay in
// the list of from; the caller calls deleteChanges. It returns errMoved if the direction has
// changed.
func (a *applier) applyFrom(ctx context.Context, rec record, from, to *Side) (done *appliedBatch, err error) {
	err = to.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		done = &appliedBatch{from: from}
		target, err := readRecord(ctx, tx, tx.ForUpdate())
		if err != nil {
			return err
		}
		if target.Role != secondary || target.Migration != rec.Migration {
			return errMoved
		}
		has, err := a.checkReceipts(ctx, from.DB, tx, target.Term)
		if err != nil {
			return err
		}
		changes, err := pending(ctx, from.DB, applyBatch)
		if err != nil || len(changes) == 0 {
			return err
		}
		b, err := a.readBatch(ctx, from, changes)
		if err != nil {
			return err
		}
		some := slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return !b.has(c) })
		for _, c := range some {
			done.seqs = append(done.seqs, c.seq)
		}
		done.more = len(changes) == applyBatch || len(some) < len(changes)
		note := has.next(some)
		done.receipt = note.receipt
		return errors.Join(a.writeRows(ctx, tx, to, target.Term, b), writeNote(ctx, tx, noteApplied, note))
	})
	if err != nil {
		return nil, fmt.Errorf("apply changes: %w", err)
	}
	return done, nil
}

// pending returns up to limit pending changes of db, the oldest first. No pending changes are an
// empty result.
func pending(ctx context.Context, db *sqldb.DB, limit int) ([]change, error) {
	return changesOf(ctx, db, "ORDER BY seq LIMIT ?", limit)
}

// changesOf returns the changes of db that rest selects: the end of the statement after the table.
func changesOf(ctx context.Context, db *sqldb.DB, rest string, args ...any) ([]change, error) {
	rows, err := db.Query(ctx, "SELECT seq, tbl, k FROM migration_changes "+rest, args...)
	return sqldb.Scan(rows, err, func(c *change, scan func(...any) error) error { return scan(&c.seq, &c.table, &c.key) })
}

// batch holds the current state of changed rows by table and key, and the number of the latest
// change of each.
type batch struct {
	shape  *sides
	from   *Side
	newest map[string]map[string]int64 // highest seq of a change, by table and key
	states map[string]map[string]row   // current row by table and key; nil: deleted
	bytes  int                         // approximate size of states
}

// has reports whether the batch has read the row of c, also if the row was missing.
func (b *batch) has(c change) bool {
	_, ok := b.states[c.table][c.key]
	return ok
}

// readBatch reads the current state of the changed rows, in order of their changes, up to about
// applyBytes. It reads at least one row of any size.
func (a *applier) readBatch(ctx context.Context, from *Side, changes []change) (*batch, error) {
	b := &batch{shape: a.sides, from: from, newest: map[string]map[string]int64{}, states: map[string]map[string]row{}}
	var rows []change // once each
	for _, c := range changes {
		if b.newest[c.table] == nil {
			b.newest[c.table] = map[string]int64{}
		}
		if b.newest[c.table][c.key] == 0 {
			rows = append(rows, c)
		}
		b.newest[c.table][c.key] = max(b.newest[c.table][c.key], c.seq)
	}
	for n, read := min(firstRead, len(rows)), 0; n > 0; {
		if err := b.read(ctx, rows[read:read+n]); err != nil {
			return nil, err
		}
		read += n
		n = min(len(rows)-read, (applyBytes-b.bytes)*read/max(1, b.bytes))
	}
	return b, nil
}

// read reads the current state of the changed rows from the side b.from into b.states, nil for a
// deleted row, and adds their size to b.bytes. It fails for a change of an unknown table; b is then
// incomplete.
func (b *batch) read(ctx context.Context, rows []change) error {
	keys := map[string][]string{}
	for _, c := range rows {
		keys[c.table] = append(keys[c.table], c.key)
	}
	for name, some := range keys {
		source, _, err := b.shape.tablesOf(name, b.from, b.from)
		if err != nil {
			return err
		}
		found, err := source.readKeys(ctx, b.from.DB, some)
		if err != nil {
			return err
		}
		if b.states[name] == nil {
			b.states[name] = map[string]row{}
		}
		for _, k := range some {
			b.states[name][k] = found[k] // nil: deleted
			b.bytes += len(k) + found[k].size()
		}
	}
	return nil
}

// writeRows writes the states of b, which are current as of term, to the side of tx, each only if
// it is newer there, and marks tx as the applier's meanwhile so that triggers do not refuse or
// record it. On an error the caller must roll tx back.
func (a *applier) writeRows(ctx context.Context, tx *sqldb.Tx, to *Side, term int64, b *batch) error {
	if err := setApplying(ctx, tx, 1); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.states)) {
		_, target, err := a.tablesOf(name, b.from, to)
		if err != nil {
			return err
		}
		var all []versionedRow
		for k, state := range b.states[name] {
			all = append(all, versionedRow{key: k, version: term<<termBits + b.newest[name][k], state: state})
		}
		slices.SortFunc(all, func(a, b versionedRow) int { return cmp.Compare(a.version, b.version) })
		if err := target.writeNewer(ctx, tx, all); err != nil {
			return err
		}
	}
	return setApplying(ctx, tx, 0)
}

// setApplying tells the SQLite triggers that replicated rows are being written (1) or no longer
// (0). On MySQL the triggers recognize the connection.
func setApplying(ctx context.Context, tx *sqldb.Tx, on int) error {
	if tx.Dialect() == sqldb.MySQL {
		return nil
	}
	_, err := tx.Exec(ctx, "UPDATE migration_side SET applying = ? WHERE id = 1", on)
	return err
}
