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

	"example.org/smartdrive/internal/base/drive"
)

// group implements group commit for SQLite. One goroutine owns the write connection. It opens a
// transaction for the first waiting write, runs all queued writes, each in a savepoint, and commits
// once. New writes queue up during the commit, so the size of a group follows the load, and a
// single write does not wait. One fsync per write would limit a disk to some hundred writes per
// second.
type group struct {
	db     *sql.DB
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt // prepared statements of conn, by text
	queue  chan *job            // jobs that wait; closed by close
	done   chan struct{}        // closed when run has returned
	stats  *Stats
	log    *slog.Logger
	onFull func() // called when the disk is full

	mu     sync.RWMutex // held for reading while a job is enqueued
	closed bool         // the queue is closed
}

// job is one call of Write that waits for the writer goroutine or is executed by it.
type job struct {
	fn          func(*Tx) error // the caller's transaction
	abandoned   func() error    // reason why its caller no longer waits, or nil
	afterCommit []func()
	err         error         // result; valid once done is closed
	began       bool          // fn was called and may have read uncommitted rows of earlier jobs
	done        chan struct{} // closed when the group of the job is committed or the job has failed
}

const (
	maxGroup     = 256                   // writes per commit
	maxGroupTime = 50 * time.Millisecond // the longest time in which a group accepts further writes
)

// startGroup opens a connection of db and starts the goroutine that executes all writes on it. The
// caller must call close, which also closes db. On an error db stays open.
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
		stats: stats, log: opt.Log, onFull: full,
	}
	go w.run()
	return w, nil
}

// close waits for queued writes and closes statements, connection and db. A second call does
// nothing.
func (g *group) close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	close(g.queue)
	g.mu.Unlock()
	<-g.done
	var errs []error
	for _, stmt := range g.stmts { // an open statement would keep the connection open
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, g.conn.Close(), g.db.Close())...)
}

// write queues fn for the writer goroutine, which runs several functions in one transaction, and
// waits for the result. It returns Stopping after close. Once fn has started, ctx does not cancel
// it. After the commit it calls the functions registered to run then.
func (g *group) write(ctx context.Context, fn func(context.Context, *Tx) error) error {
	whole := context.WithoutCancel(ctx) // ctx does not cancel a function that has started
	j := &job{fn: func(tx *Tx) error { return callToEnd(whole, tx, fn) }, abandoned: ctx.Err, done: make(chan struct{})}
	if err := g.enqueue(ctx, j); err != nil {
		return err
	}
	<-j.done
	for _, fn := range j.afterCommit {
		fn()
	}
	return j.err
}

// enqueue queues a job. It fails with Stopping after close, and with ErrUnwritten if ctx ends
// first.
func (g *group) enqueue(ctx context.Context, j *job) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return drive.Fail(drive.Stopping)
	}
	select {
	case g.queue <- j:
		return nil
	case <-ctx.Done():
		return unwritten(drive.Wrap(ctx.Err(), drive.Unavailable))
	}
}

// run executes queued writes, many per transaction, until the queue is closed and empty. It closes
// the done channel of each job after setting its error. It is the only goroutine that uses the
// connection.
func (g *group) run() {
	defer close(g.done)
	for first := range g.queue {
		group := g.runGroup(first)
		for _, j := range group {
			if j.err != nil {
				j.afterCommit = nil
				g.stats.Failed.Add(1)
			} else {
				g.stats.Writes.Add(1)
			}
			close(j.done)
		}
	}
}

// runGroup runs the first job and the queued ones in one transaction and returns them with their
// results. If the transaction fails, every job fails, whatever its own result: the rows that it saw
// may be rolled back.
func (g *group) runGroup(first *job) []*job {
	ctx := context.Background() // the cancellation of one caller must not cancel the transaction of the others
	group := []*job{first}
	if err := g.begin(ctx); err != nil {
		first.err = unwritten(err)
		return group
	}
	deadline := time.Now().Add(maxGroupTime)
	var broken error
	sent := false // COMMIT was sent: after a failure its outcome is unknown
	for j := first; ; {
		if broken = g.runJob(ctx, j); broken != nil {
			break
		}
		if j = g.next(len(group), deadline); j == nil {
			break
		}
		group = append(group, j)
	}
	if broken == nil && anySucceeded(group) {
		sent, broken = true, g.exec(ctx, "COMMIT")
		g.stats.Commits.Add(1)
	} else {
		broken = errors.Join(broken, g.rollback(ctx))
	}
	if broken != nil {
		g.breakGroup(ctx, group, broken)
	}
	if broken == nil || !sent {
		for _, j := range group {
			j.err = unwritten(j.err)
		}
	}
	return group
}

// begin opens a transaction. If that fails, an earlier BEGIN or ROLLBACK whose reply was lost may
// have left one open: begin then rolls back and tries once more. Otherwise every later write would
// fail.
func (g *group) begin(ctx context.Context) error {
	err := g.exec(ctx, "BEGIN IMMEDIATE")
	if err == nil {
		return nil
	}
	if rollbackErr := g.rollback(ctx); rollbackErr != nil || drive.KindOf(err) != drive.Internal {
		return errors.Join(err, rollbackErr)
	}
	return g.exec(ctx, "BEGIN IMMEDIATE")
}

// anySucceeded reports whether a job of the group has no error.
func anySucceeded(group []*job) bool {
	for _, j := range group {
		if j.err == nil {
			return true
		}
	}
	return false
}

// next returns a queued job for the group. It returns nil, without waiting, if no job is queued,
// the group has maxGroup jobs, or the deadline has passed.
func (g *group) next(size int, deadline time.Time) *job {
	if size >= maxGroup || time.Now().After(deadline) {
		return nil
	}
	select {
	case j := <-g.queue:
		return j // nil after close
	default:
		return nil
	}
}

// breakGroup rolls back after an error of the whole transaction and sets the error of every job
// that ran to DiskFull or Unavailable with that cause. A job's own result may depend on rows of
// another job that are now rolled back. Only a job that never ran keeps its error. It calls onFull
// for a full disk.
func (g *group) breakGroup(ctx context.Context, group []*job, cause error) {
	if drive.KindOf(cause) == drive.Internal { // from the rows of a query, not classified by their reader
		cause = classify(cause)
	}
	if drive.KindOf(cause) == drive.DiskFull {
		g.onFull()
	}
	if err := g.rollback(ctx); err != nil {
		g.log.Error("a failed transaction could not be rolled back; the next one rolls it back", "error", err)
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

// rollback rolls back the open transaction. If SQLite reports that there is none, it returns nil.
func (g *group) rollback(ctx context.Context) error {
	err := g.exec(ctx, "ROLLBACK")
	if err != nil && !breaksTransaction(err) && drive.KindOf(err) == drive.Internal {
		return nil
	}
	return err
}

// runJob runs one job in a savepoint and stores its result in j.err. It returns an error if the
// whole transaction is broken.
func (g *group) runJob(ctx context.Context, j *job) error {
	if err := j.abandoned(); err != nil {
		j.err = drive.Wrap(err, drive.Unavailable)
		return nil
	}
	if err := g.exec(ctx, "SAVEPOINT job"); err != nil {
		return err
	}
	tx := &Tx{conn: g.conn, stmts: g.stmts}
	j.began = true
	if j.err = j.fn(tx); j.err == nil {
		j.afterCommit = tx.afterCommit
		return g.exec(ctx, "RELEASE job")
	}
	if breaksTransaction(j.err) {
		return j.err
	}
	if err := g.exec(ctx, "ROLLBACK TO job"); err != nil {
		return err
	}
	j.err = final(j.err)
	return g.exec(ctx, "RELEASE job")
}

// callToEnd calls fn and then, unless fn failed or the transaction is broken, the work that was
// deferred to the end of the transaction. It does not commit; the caller checks tx.broken.
func callToEnd(ctx context.Context, tx *Tx, fn func(context.Context, *Tx) error) error {
	err := call(ctx, tx, fn)
	if err == nil && tx.broken == nil {
		err = tx.finish(ctx)
	}
	return err
}

// call calls fn and turns a panic into an error, so that the other jobs of the group continue.
func call(ctx context.Context, tx *Tx, fn func(context.Context, *Tx) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in a transaction: %v\n%s", r, debug.Stack())
		}
	}()
	return fn(ctx, tx)
}

// exec executes a statement such as BEGIN or COMMIT on the connection of the group, outside of any
// job. Only the goroutine of the group may call it.
func (g *group) exec(ctx context.Context, query string) error {
	tx := Tx{conn: g.conn, stmts: g.stmts}
	_, err := tx.Exec(ctx, query)
	return err
}
