package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

// Group commit. The naive way gives each write its own fsync, some hundreds a second on a disk.
// Here one goroutine owns the write connection: it opens a transaction for the first write that
// waits, runs all that have queued up behind it, each in a savepoint, commits once and tells
// everyone. While it waits for the disk the next group gathers, so the size of a group follows the
// load by itself and a lone write waits for nobody.
type group struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	queue chan *job
	done  chan struct{}
	stats *Stats
	log   *slog.Logger
	full  func()

	mu     sync.RWMutex // held for reading while a job is put into the queue
	closed bool
}

type job struct {
	fn    func(*Tx) error
	gone  func() error // why nobody waits for it any more, or nil
	after []func()
	err   error
	began bool // fn was called: what it has concluded, it may have read in rows of the jobs before it
	done  chan struct{}
}

const (
	maxGroup     = 256                   // writes that share a commit
	maxGroupTime = 50 * time.Millisecond // the longest a group may grow while writes keep coming
)

func startGroup(ctx context.Context, db *sql.DB, stats *Stats, opt Options) (*group, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the write connection: %w", err)
	}
	full := opt.OnFull
	if full == nil {
		full = func() {}
	}
	w := &group{
		db: db, conn: conn, stmts: map[string]*sql.Stmt{}, queue: make(chan *job, maxGroup), done: make(chan struct{}),
		stats: stats, log: opt.Log, full: full,
	}
	go w.run()
	return w, nil
}

func (w *group) close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	close(w.queue)
	w.mu.Unlock()
	<-w.done
	var errs []error
	for _, stmt := range w.stmts { // an open statement would keep the connection open
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

func (w *group) write(ctx context.Context, fn func(context.Context, *Tx) error) error {
	whole := context.WithoutCancel(ctx) // what has begun is not broken off
	j := &job{fn: func(tx *Tx) error { return callToEnd(whole, tx, fn) }, gone: ctx.Err, done: make(chan struct{})}
	if err := w.enqueue(ctx, j); err != nil {
		return err
	}
	<-j.done
	for _, fn := range j.after {
		fn()
	}
	return j.err
}

func (w *group) enqueue(ctx context.Context, j *job) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return drive.Fail(drive.Stopping)
	}
	select {
	case w.queue <- j:
		return nil
	case <-ctx.Done():
		return unwritten(drive.Wrap(ctx.Err(), drive.Unavailable))
	}
}

func (w *group) run() {
	defer close(w.done)
	for first := range w.queue {
		group := w.runGroup(first)
		for _, j := range group {
			if j.err != nil {
				j.after = nil
				w.stats.Failed.Add(1)
			} else {
				w.stats.Writes.Add(1)
			}
			close(j.done)
		}
	}
}

// runGroup runs the first job and those that wait behind it in one transaction. If the transaction
// breaks, all of its jobs fail, and none keeps a verdict of its own: the rows that it saw may have
// gone with the transaction.
func (w *group) runGroup(first *job) []*job {
	ctx := context.Background() // one caller's cancellation must not break the others' transaction
	group := []*job{first}
	if err := w.begin(ctx); err != nil {
		first.err = unwritten(err)
		return group
	}
	deadline := time.Now().Add(maxGroupTime)
	var broken error
	sent := false // COMMIT was: from then on nobody knows what became of a broken transaction
	for j := first; ; {
		if broken = w.runJob(ctx, j); broken != nil {
			break
		}
		if j = w.next(len(group), deadline); j == nil {
			break
		}
		group = append(group, j)
	}
	if broken == nil && anySucceeded(group) {
		sent, broken = true, w.exec(ctx, "COMMIT")
		w.stats.Commits.Add(1)
	} else {
		broken = errors.Join(broken, w.rollback(ctx))
	}
	if broken != nil {
		w.breakGroup(ctx, group, broken)
	}
	if broken == nil || !sent {
		for _, j := range group {
			j.err = unwritten(j.err)
		}
	}
	return group
}

// begin opens a transaction. If it fails one may be open all the same, from a BEGIN or a ROLLBACK
// that was not answered: it is rolled back, or no write would ever succeed again.
func (w *group) begin(ctx context.Context) error {
	err := w.exec(ctx, "BEGIN IMMEDIATE")
	if err == nil {
		return nil
	}
	if rollbackErr := w.rollback(ctx); rollbackErr != nil || drive.KindOf(err) != drive.Internal {
		return errors.Join(err, rollbackErr)
	}
	return w.exec(ctx, "BEGIN IMMEDIATE")
}

func anySucceeded(group []*job) bool {
	for _, j := range group {
		if j.err == nil {
			return true
		}
	}
	return false
}

func (w *group) next(size int, deadline time.Time) *job {
	if size >= maxGroup || time.Now().After(deadline) {
		return nil
	}
	select {
	case j := <-w.queue:
		return j // nil when the queue was closed
	default:
		return nil
	}
}

// breakGroup makes sure that no transaction stays open and fails every job, whatever it had
// concluded: that a name is taken, that an upload has ended, or what an earlier request was
// answered may be in rows that another job wrote and that are gone now. Only a job that never began
// keeps its error.
func (w *group) breakGroup(ctx context.Context, group []*job, cause error) {
	if drive.KindOf(cause) == drive.Internal { // of rows whose reader has not classified it
		cause = classify(cause)
	}
	if drive.KindOf(cause) == drive.DiskFull {
		w.full()
	}
	if err := w.rollback(ctx); err != nil {
		w.log.Error("roll back a broken transaction", "error", err)
	}
	kind := drive.Unavailable
	if drive.KindOf(cause) == drive.DiskFull {
		kind = drive.DiskFull
	}
	for _, j := range group {
		if j.err == nil || j.began {
			j.err = drive.Wrap(cause, kind, argsOf(cause)...)
		}
	}
}

// rollback ends the transaction if one is open; "no transaction is active" means the engine has
// done it already.
func (w *group) rollback(ctx context.Context) error {
	err := w.exec(ctx, "ROLLBACK")
	if err != nil && !breaksTransaction(err) && drive.KindOf(err) == drive.Internal {
		return nil
	}
	return err
}

// runJob runs one job in its savepoint and keeps its outcome in j.err. The error it returns is one
// that breaks the whole transaction.
func (w *group) runJob(ctx context.Context, j *job) error {
	if err := j.gone(); err != nil {
		j.err = drive.Wrap(err, drive.Unavailable)
		return nil
	}
	if err := w.exec(ctx, "SAVEPOINT job"); err != nil {
		return err
	}
	tx := &Tx{conn: w.conn, stmts: w.stmts}
	j.began = true
	if j.err = j.fn(tx); j.err == nil {
		j.after = tx.after
		return w.exec(ctx, "RELEASE job")
	}
	if breaksTransaction(j.err) {
		return j.err
	}
	if err := w.exec(ctx, "ROLLBACK TO job"); err != nil {
		return err
	}
	j.err = final(j.err)
	return w.exec(ctx, "RELEASE job")
}

// callToEnd is call with what the transaction does at its end.
func callToEnd(ctx context.Context, tx *Tx, fn func(context.Context, *Tx) error) error {
	err := call(ctx, tx, fn)
	if err == nil && tx.broken == nil {
		err = tx.finish(ctx)
	}
	return err
}

// call turns a panic of one job into its error: the other jobs of the group must not suffer from
// it.
func call(ctx context.Context, tx *Tx, fn func(context.Context, *Tx) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in a transaction: %v\n%s", r, debug.Stack())
		}
	}()
	return fn(ctx, tx)
}

func (w *group) exec(ctx context.Context, query string) error {
	tx := Tx{conn: w.conn, stmts: w.stmts}
	_, err := tx.Exec(ctx, query)
	return err
}
