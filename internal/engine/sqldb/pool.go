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

	"smartdrive/internal/base/drive"
)

// pool gives each write a transaction on a connection of its own. The server's locks put them in
// order (READ COMMITTED: a statement sees what is committed when it begins), and its own group
// commit lets them share a sync.
//
// When the server ends a transaction because of a deadlock, or a lock is not had in time, the
// function runs again from its beginning: up to three times, after a pause of random length, so
// that two who met do not meet again. Nothing of the failed try is left, its AfterCommit functions
// included.
type pool struct {
	db    *sql.DB
	idle  int // connections that may be stale, one after the other, after the server was restarted
	twice bool
	stats *Stats

	mu     sync.RWMutex // held for reading while a write is counted
	closed bool
	busy   sync.WaitGroup
}

const (
	maxReruns = 3
	rerunWait = 20 * time.Millisecond // the mean pause before the first rerun; it doubles

	// txTime bounds a transaction from BEGIN to COMMIT: a server that has vanished without a word
	// must not hold a request, and the locks that it waits for, for longer.
	txTime = 20 * time.Second
	// beginTime bounds the wait for a connection and for BEGIN: who comes later waits no less, and
	// a client may try again.
	beginTime = 20 * time.Second
)

// Again is the error of a function that found, in the middle of its transaction, that another was
// first: everything is undone and it runs again at once, seeing what the other did. It is for the
// one who lost a race for a unique key: to go on would be to raise the lock that InsertNew has left
// on the other's row, and two who do that block each other. On SQLite, where transactions run one
// after the other, a rerun would find the same: the Write fails at once with Unavailable, as it
// does after the last rerun elsewhere.
func Again(cause error) error { return again{cause} }

type again struct{ cause error }

func (a again) Error() string { return fmt.Sprintf("another was first: %v", a.cause) }
func (a again) Unwrap() error { return a.cause }

func (p *pool) write(ctx context.Context, fn func(context.Context, *Tx) error) error {
	if !p.enter() {
		return drive.Fail(drive.Stopping)
	}
	defer p.busy.Done()
	if p.twice {
		if err := p.rehearse(ctx, fn); err != nil {
			p.stats.Failed.Add(1)
			return final(err)
		}
	}
	for rerun := 0; ; rerun++ {
		after, err := p.once(ctx, fn)
		if err == nil {
			p.stats.Writes.Add(1)
			for _, fn := range after {
				fn()
			}
			return nil
		}
		if !worthRerun(err) || rerun == maxReruns || !pause(ctx, rerun) {
			p.stats.Failed.Add(1)
			return final(err)
		}
		p.stats.Reruns.Add(1)
	}
}

func (p *pool) enter() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.closed {
		p.busy.Add(1)
	}
	return !p.closed
}

func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.busy.Wait()
	return p.db.Close()
}

func worthRerun(err error) bool {
	_, lost := errors.AsType[again](err)
	return lost || hasNumber(err, erDeadlock, erLockTimeout, erChanged)
}

// pause waits before a rerun; false: the caller has gone.
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

// final is the error of a write that will not be tried again.
func final(err error) error {
	if worthRerun(err) { // and so it was undone
		return unwritten(drive.Wrap(err, drive.Unavailable, "retry_after", 1))
	}
	return err
}

// once runs one transaction.
func (p *pool) once(ctx context.Context, fn func(context.Context, *Tx) error) (after []func(), err error) {
	conn, err := p.begin(ctx)
	if err != nil {
		return nil, unwritten(err)
	}
	// A connection of which it is not known that no transaction is open on it must not be used
	// again.
	clean := false
	defer func() {
		if !clean {
			discard(conn)
		}
		err = errors.Join(err, quiet(conn.Close()))
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
	return tx.after, nil
}

// begin takes a connection and opens a transaction on it, within beginTime. After a restart of the
// server the idle connections are stale, and it goes on to the next one: nothing was sent on them.
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
			err = errors.Join(err, quiet(conn.Close()))
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

func (p *pool) rollback(conn *sql.Conn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	_, err := conn.ExecContext(ctx, "ROLLBACK")
	return err == nil
}

// notCommitted judges the error of COMMIT. A deadlock there (Galera) is a refusal. After everything
// else, be it the server's word or its silence, nobody knows whether it was committed.
func (p *pool) notCommitted(err error) error {
	if hasNumber(err, erDeadlock) {
		return classify(err)
	}
	kind := drive.Unavailable
	if drive.KindOf(classify(err)) == drive.DiskFull {
		kind = drive.DiskFull
	}
	err = errors.New("commit: " + err.Error()) // without its number, by which it would be tried again
	return drive.Wrap(errors.Join(ErrInDoubt, err), kind)
}

// discard closes the connection itself, which ends what is open on it.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// quiet drops the error of giving back a connection that is closed already.
func quiet(err error) error {
	if errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}
