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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	applyBatch = 500              // changes that are applied in one transaction, at most
	applyBytes = 4 << 20          // of their rows, about: they are in memory, and on their way in one transaction
	applyLook  = 32               // rows that are read before it is known how large they are
	applyWait  = time.Second      // that a writer waits for its second write
	applyTime  = 15 * time.Second // that a batch may take
	termBits   = 40               // of a version below the term: more changes than a move will see
)

// applier brings changes to the secondary, one batch at a time; writers that wait meanwhile share
// the next.
type applier struct {
	*both
	lost atomic.Bool // a side lacks what the other one counts on
	busy sync.WaitGroup

	mu      sync.Mutex
	next    *pass // what those who come now wait for: it begins after them
	running bool
	failing bool // the last pass failed: nobody waits for the next
	closed  bool
}

type pass struct {
	done chan struct{}
	err  error
}

// settle applies what is there now and reports whether it was done in time. While the secondary
// fails it says no at once.
func (a *applier) settle(ctx context.Context) bool {
	a.mu.Lock()
	failing := a.failing
	p := a.joinLocked()
	a.mu.Unlock()
	if failing || p == nil {
		return false
	}
	timer := time.NewTimer(applyWait)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err == nil
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// now is settle for who has time, and tells why it failed.
func (a *applier) now(ctx context.Context) error {
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

func (a *applier) joinLocked() *pass {
	if a.closed {
		return nil
	}
	if a.next == nil {
		a.next = &pass{done: make(chan struct{})}
	}
	if !a.running {
		a.running = true
		a.busy.Go(a.work)
	}
	return a.next
}

// work makes passes while somebody waits for one.
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
		a.forget(applied)
	}
}

func (a *applier) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.busy.Wait()
}

// applyAll brings everything that is pending when it begins, calls done, and returns what is still
// to be forgotten. However much that is: each batch has its own time, and while one follows the
// other nothing has failed, so writers go on waiting a little, which lets the batches catch up.
func (a *applier) applyAll(done func(error)) *applied {
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
		_, err = a.timed(func(ctx context.Context) (*applied, error) { return nil, last.forget(ctx) })
		if err != nil {
			done(err)
			return nil
		}
	}
}

func (a *applier) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

func (a *applier) timed(f func(context.Context) (*applied, error)) (*applied, error) {
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	return f(ctx)
}

// forget takes what was applied out of the list. If that fails it is applied again, for nothing.
func (a *applier) forget(done *applied) {
	if done == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	if err := done.forget(ctx); err != nil {
		a.log.WarnContext(ctx, "changes that were applied stay in the list", "error", err)
	}
}

// applied are changes that the secondary has.
type applied struct {
	from *Side
	seqs []any
	told receipt // of the secondary, for them
	more bool    // changes that were there, too
}

func (a *applied) forget(ctx context.Context) error {
	if len(a.seqs) == 0 {
		return nil
	}
	return a.from.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		may, err := acknowledge(ctx, tx, a.told)
		if err != nil || !may {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM migration_changes WHERE seq IN ("+sqldb.Marks(len(a.seqs))+")", a.seqs...)
		return err
	})
}

// change is a row of migration_changes.
type change struct {
	seq   int64
	table string
	key   string
}

// applyBatch brings one batch of changes. nil: there is no other side.
func (a *applier) applyBatch(ctx context.Context) (*applied, error) {
	v := a.known()
	if v == nil || v.Peer == "" || v.Phase == NewOnly {
		return nil, nil
	}
	from, to := v.near, v.other
	if v.near == nil { // between two: what the fenced side has left is brought by who switches
		return nil, errMoved
	}
	if to == nil {
		return nil, drive.Wrap(errors.New("the other side cannot be reached"), drive.Unavailable)
	}
	return a.carry(ctx, v.record, from, to)
}

// carry brings one batch from one side to the other, under the lock of the other's row: who applies
// is alone, reads what is pending behind the lock, and finds out there that the direction is still
// this one.
func (a *applier) carry(ctx context.Context, rec record, from, to *Side) (done *applied, err error) {
	err = to.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		done = &applied{from: from}
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
		b, err := a.gather(ctx, from, changes)
		if err != nil {
			return err
		}
		some := slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return !b.has(c) })
		for _, c := range some {
			done.seqs = append(done.seqs, c.seq)
		}
		done.more = len(changes) == applyBatch || len(some) < len(changes)
		note := has.next(some)
		done.told = note.receipt
		return errors.Join(a.bringChanges(ctx, tx, to, target.Term, b), writeNote(ctx, tx, noteApplied, note))
	})
	if err != nil {
		return nil, fmt.Errorf("apply changes: %w", err)
	}
	return done, nil
}

func pending(ctx context.Context, db *sqldb.DB, limit int) ([]change, error) {
	return changesOf(ctx, db, "ORDER BY seq LIMIT ?", limit)
}

func changesOf(ctx context.Context, db *sqldb.DB, rest string, args ...any) ([]change, error) {
	rows, err := db.Query(ctx, "SELECT seq, tbl, k FROM migration_changes "+rest, args...)
	return sqldb.Scan(rows, err, func(c *change, scan func(...any) error) error { return scan(&c.seq, &c.table, &c.key) })
}

// batch is what changed rows are now, by table and key, with the number of each one's latest
// change.
type batch struct {
	shape  *both
	from   *Side
	newest map[string]map[string]int64
	states map[string]map[string]row
	bytes  int
}

func (b *batch) has(c change) bool {
	_, ok := b.states[c.table][c.key]
	return ok
}

// gather reads what changed rows are now, in the order of their changes, until they are applyBytes.
// One row is always among them, however large it is.
func (a *applier) gather(ctx context.Context, from *Side, changes []change) (*batch, error) {
	b := &batch{shape: a.both, from: from, newest: map[string]map[string]int64{}, states: map[string]map[string]row{}}
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
	for n, read := min(applyLook, len(rows)), 0; n > 0; {
		if err := b.read(ctx, rows[read:read+n]); err != nil {
			return nil, err
		}
		read += n
		n = min(len(rows)-read, (applyBytes-b.bytes)*read/max(1, b.bytes))
	}
	return b, nil
}

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
			b.states[name][k] = found[k] // nil: it was deleted
			b.bytes += len(k) + found[k].size()
		}
	}
	return nil
}

// bringChanges writes what the changed rows are now.
func (a *applier) bringChanges(ctx context.Context, tx *sqldb.Tx, to *Side, term int64, b *batch) error {
	if err := mark(ctx, tx, 1); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.states)) {
		_, target, err := a.tablesOf(name, b.from, to)
		if err != nil {
			return err
		}
		var all []stamped
		for k, state := range b.states[name] {
			all = append(all, stamped{key: k, version: term<<termBits + b.newest[name][k], state: state})
		}
		slices.SortFunc(all, func(a, b stamped) int { return cmp.Compare(a.version, b.version) })
		if err := target.bring(ctx, tx, all); err != nil {
			return err
		}
	}
	return mark(ctx, tx, 0)
}

// mark tells the triggers of SQLite that rows are being brought; on MySQL the connection is known
// by itself.
func mark(ctx context.Context, tx *sqldb.Tx, on int) error {
	if tx.Dialect() == sqldb.MySQL {
		return nil
	}
	_, err := tx.Exec(ctx, "UPDATE migration_side SET applying = ? WHERE id = 1", on)
	return err
}
