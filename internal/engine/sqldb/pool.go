package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// pool is the writer for MySQL: each write has a transaction on its own connection. The server
// orders them by its locks (READ COMMITTED: a statement sees what was committed when it starts),
// and its group commit lets them share a sync.
//
// After a deadlock or a lock timeout the function runs again from its start, up to maxReruns times,
// each after a random pause so that two conflicting transactions separate. The failed run leaves no
// trace; its AfterCommit functions are dropped.
type pool struct {
	db    *sql.DB
	idle  int  // greatest number of stale connections after a restart of the server
	twice bool // run each write once more beforehand and roll it back, to detect functions that cannot run again
	stats *Stats

	mu      sync.RWMutex // held for reading while a write is counted
	closed  bool         // acquire refuses
	running sync.WaitGroup
}

const (
	// maxReruns is how often a transaction runs again after a conflict.
	maxReruns = 3
	rerunWait = 20 * time.Millisecond // mean pause before the first rerun; it doubles

	// txTime bounds a transaction from BEGIN to COMMIT, in case the server becomes unreachable
	// while requests wait.
	txTime = 20 * time.Second
	// beginTime bounds the wait for a connection and BEGIN; the client may retry.
	beginTime = 20 * time.Second
)

// Rerun returns an error by which a function of Write asks to run again from its start, after it
// found a conflicting transaction in the middle. Use it after losing a race for a unique key:
// continuing would upgrade the shared lock that InsertNew left on the other's row, and two such
// transactions deadlock. On SQLite, transactions are serial and a rerun would find the same rows,
// so the Write fails at once with Unavailable, as it does after the last rerun on MySQL.
func Rerun(cause error) error { return conflictError{cause} }

// conflictError is the error of Rerun: the transaction shall be rolled back and run again.
type conflictError struct{ cause error }

// Error returns the text for the log.
func (a conflictError) Error() string { return fmt.Sprintf("another was first: %v", a.cause) }

// Unwrap returns the cause.
func (a conflictError) Unwrap() error { return a.cause }

// write runs fn in a transaction and, after a conflict, again, at most maxReruns times; then it
// returns Unavailable. After the commit it calls the AfterCommit functions. It returns Stopping
// after close, and runs fn once more beforehand, rolled back, if p.twice.
func (p *pool) write(ctx context.Context, fn func(context.Context, *Tx) error) error {
	if !p.acquire() {
		return drive.Fail(drive.Stopping)
	}
	defer p.running.Done()
	if p.twice {
		if err := p.rehearse(ctx, fn); err != nil {
			p.stats.Failed.Add(1)
			return final(err)
		}
	}
	for rerun := 0; ; rerun++ {
		after, err := p.runOnce(ctx, fn)
		if err == nil {
			p.stats.Writes.Add(1)
			for _, fn := range after {
				fn()
			}
			return nil
		}
		if !isConflict(err) || rerun == maxReruns || !pause(ctx, rerun) {
			p.stats.Failed.Add(1)
			return final(err)
		}
		p.stats.Reruns.Add(1)
	}
}

// acquire counts a running write and returns true; the caller must call p.running.Done when the
// write ends. After close it returns false and counts nothing.
func (p *pool) acquire() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.closed {
		p.running.Add(1)
	}
	return !p.closed
}

// close refuses new writes, waits until the running ones have ended, and then closes the
// connections. It returns the error of closing them.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
	return p.db.Close()
}

// isConflict reports whether err is a conflict after which the function runs again.
func isConflict(err error) bool {
	_, lost := errors.AsType[conflictError](err)
	return lost || hasNumber(err, erDeadlock, erLockTimeout, erChanged)
}

// pause waits a random time, longer for each rerun, before a transaction is run again. It returns
// false if ctx ends first.
func pause(ctx context.Context, rerun int) bool {
	timer := time.NewTimer(rand.N(2 * rerunWait << rerun))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// final returns the error for the caller of a write that is not repeated: a conflict, which was
// rolled back, becomes Unavailable {retry_after} and matches ErrUnwritten. Other errors, and nil,
// stay as they are.
func final(err error) error {
	if isConflict(err) { // and so it was undone
		return unwritten(drive.Wrap(err, drive.Unavailable, "retry_after", 1))
	}
	return err
}

// runOnce runs fn in one transaction, commits it, and returns the functions that the caller must
// call now that it has committed. An error before COMMIT rolls back and matches ErrUnwritten; a
// failed COMMIT matches ErrInDoubt if the outcome is unknown. A connection that may have an open
// transaction is closed instead of reused.
func (p *pool) runOnce(ctx context.Context, fn func(context.Context, *Tx) error) (after []func(), err error) {
	conn, err := p.begin(ctx)
	if err != nil {
		return nil, unwritten(err)
	}
	// A connection that may have an open transaction must not return to the pool.
	clean := false
	defer func() {
		if !clean {
			discard(conn)
		}
		err = errors.Join(err, ignoreClosed(conn.Close()))
	}()
	txCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txTime)
	defer cancel()
	tx := &Tx{dialect: MySQL, conn: conn}
	if err = callToEnd(txCtx, tx, fn); err == nil {
		err = tx.broken
	}
	if err != nil {
		clean = p.rollback(conn)
		return nil, unwritten(err)
	}
	p.stats.Commits.Add(1)
	if _, err = conn.ExecContext(txCtx, "COMMIT"); err != nil {
		return nil, p.notCommitted(err)
	}
	clean = true
	return tx.afterCommit, nil
}

// begin returns a connection with an open transaction, within beginTime; the caller must end the
// transaction and close the connection. It skips connections that are stale after a restart of the
// server, on which nothing was executed. It fails with Unavailable if no connection becomes free in
// time.
func (p *pool) begin(ctx context.Context) (*sql.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	for stale := 0; ; stale++ {
		conn, err := p.db.Conn(ctx)
		if err == nil {
			if _, err = conn.ExecContext(ctx, "BEGIN"); err == nil {
				return conn, nil
			}
			discard(conn)
			err = errors.Join(err, ignoreClosed(conn.Close()))
		}
		if errors.Is(err, driver.ErrBadConn) && stale < p.idle {
			continue
		}
		if ctx.Err() != nil {
			return nil, drive.Wrap(err, drive.Unavailable)
		}
		return nil, fmt.Errorf("begin a transaction: %w", classify(err))
	}
}

// rollback rolls back the transaction of a connection, even if the caller's context has ended. If
// it returns false, the connection may still have an open transaction and must be discarded.
func (p *pool) rollback(conn *sql.Conn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	_, err := conn.ExecContext(ctx, "ROLLBACK")
	return err == nil
}

// notCommitted maps an error of COMMIT. A deadlock (Galera) means that it was refused. After any
// other error the outcome is unknown: ErrInDoubt.
func (p *pool) notCommitted(err error) error {
	if hasNumber(err, erDeadlock) {
		return classify(err)
	}
	kind := drive.Unavailable
	if drive.KindOf(classify(err)) == drive.DiskFull {
		kind = drive.DiskFull
	}
	err = errors.New("commit: " + err.Error()) // without the error number, which would cause a rerun
	return drive.Wrap(errors.Join(ErrInDoubt, err), kind)
}

// discard closes the connection to the server, which ends its transaction, instead of returning it
// to the pool. The caller must still close conn.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// ignoreClosed drops the error of closing a connection that is already closed.
func ignoreClosed(err error) error {
	if errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}
