package innodb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// drives is SmartDrive's database on the server, and the same one past SmartDrive.
type drives struct {
	*sqldb.DB
	raw *server
}

func newDrive(t *testing.T) drives {
	t.Helper()
	s := newServer(t)
	db, err := sqldb.Open(t.Context(), sqldb.Options{MySQL: s.config.FormatDSN(), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	return drives{db, s}
}

// write runs a transaction in the background.
func (d drives) write(t *testing.T, fn func(ctx context.Context, tx *sqldb.Tx) error) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- d.Write(t.Context(), fn) }()
	return done
}

// held is a transaction that has done its work and has not ended yet.
type held struct {
	end  chan error
	done <-chan error
}

var errGivenUp = errors.New("given up")

// hold runs fn in a transaction and returns when fn has, with the transaction open.
func (d drives) hold(t *testing.T, fn func(ctx context.Context, tx *sqldb.Tx) error) *held {
	t.Helper()
	h := &held{end: make(chan error, 1)}
	reached := make(chan error, 1)
	h.done = d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		err := fn(ctx, tx)
		reached <- err
		if err != nil {
			return err
		}
		return <-h.end
	})
	must(t, <-reached)
	return h
}

func (h *held) commit(t *testing.T) {
	t.Helper()
	h.end <- nil
	must(t, <-h.done)
}

func (h *held) rollBack(t *testing.T) {
	t.Helper()
	h.end <- errGivenUp
	if err := <-h.done; !errors.Is(err, errGivenUp) {
		t.Fatalf("error %v of a transaction that was given up", err)
	}
}

// reran fails the test unless a transaction was repeated; otherwise the test did not exercise a
// retry.
func (d drives) reran(t *testing.T) {
	t.Helper()
	if d.Stats().Reruns.Load() == 0 {
		t.Fatal("no transaction ran again")
	}
}

// atOnce runs fn n times concurrently and returns the errors.
func atOnce(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	var start, end sync.WaitGroup
	start.Add(1)
	for i := range n {
		end.Go(func() {
			start.Wait()
			errs[i] = fn(i)
		})
	}
	start.Done()
	end.Wait()
	return errs
}

// newAccount creates the account that a ledger belongs to.
func (d drives) newAccount(t *testing.T) drive.AccountID {
	t.Helper()
	id := drive.NewID[drive.AccountID]()
	exec(t, d.raw, "INSERT INTO accounts (id, created_at) VALUES (?, 0)", id)
	return id
}

func (d drives) want(t *testing.T, query string, rows ...string) {
	t.Helper()
	wantRows(t, all(t, d.raw, query), rows...)
}

func wantKind(t *testing.T, err error, kind drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
}

// A function that ignores the error of a deadlocked statement cannot commit the remains of its
// transaction.
func TestOverlookedDeadlockCommitsNothingByHalf(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	exec(t, d.raw, "INSERT INTO meta (name, value) VALUES ('ann', '0'), ('bob', '0')")
	var met sync.WaitGroup // both have taken their first row; only the first time
	met.Add(2)
	errs := atOnce(2, func(i int) error {
		order := [][]string{{"ann", "bob"}, {"bob", "ann"}}[i]
		once := sync.OnceFunc(func() { met.Done(); met.Wait() })
		return d.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, _ = tx.Exec(ctx, "UPDATE meta SET value = value + 1 WHERE name = ?", order[0])
			once()
			_, _ = tx.Exec(ctx, "UPDATE meta SET value = value + 1 WHERE name = ?", order[1])
			_, _ = tx.InsertNew(ctx, "INSERT INTO meta (name, value) VALUES (?, '')", fmt.Sprint("done ", i))
			return nil
		})
	})
	must(t, errors.Join(errs...))
	d.reran(t)
	d.want(t, "SELECT CONCAT(name, '=', value) FROM meta WHERE name <> 'schema' ORDER BY name", "ann=2", "bob=2", "done 0=", "done 1=")
}

// The same for a lock that is not had in time, which undoes a statement only.
func TestOverlookedTimeoutCommitsNothingByHalf(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	exec(t, d.raw, "INSERT INTO meta (name, value) VALUES ('ann', '100'), ('bob', '0')")
	other := d.raw.session(t, readCommitted)
	other.must("SELECT value FROM meta WHERE name = 'bob' FOR UPDATE")
	again := make(chan struct{})
	tries := 0
	done := d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if tries++; tries == 2 {
			close(again)
		}
		_, _ = tx.Exec(ctx, "UPDATE meta SET value = value - 10 WHERE name = 'ann'")
		_, _ = tx.Exec(ctx, "UPDATE meta SET value = value + 10 WHERE name = 'bob'")
		return nil
	})
	select {
	case <-again: // the first wait is over
	case err := <-done:
		t.Fatalf("the transaction ended, with %v, while another held its row", err)
	}
	other.commit()
	must(t, <-done)
	d.want(t, "SELECT CONCAT(name, '=', value) FROM meta WHERE name IN ('ann', 'bob') ORDER BY name", "ann=90", "bob=10")
}
