package sqldbtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/test/process"
)

// Concurrently runs n calls of write, each with one DB.Write, at the same time and waits for all.
// On SQLite all writes then run in one group and share its COMMIT. On MySQL each has its own
// transaction.
func Concurrently(t testing.TB, db *sqldb.DB, n int, write func(i int)) {
	t.Helper()
	ConcurrentlyPartly(t, db, n, n, write)
}

// ConcurrentlyPartly runs n calls of write at the same time, as Concurrently does, if only writes
// of them reach a DB.Write before the others finish.
func ConcurrentlyPartly(t testing.TB, db *sqldb.DB, n, writes int, write func(i int)) {
	t.Helper()
	var all sync.WaitGroup
	defer all.Wait()
	early := make(chan int, n)
	if db.Dialect() == sqldb.SQLite {
		hold, entered := make(chan struct{}), make(chan struct{})
		all.Go(func() {
			_ = db.Write(context.Background(), func(context.Context, *sqldb.Tx) error { close(entered); <-hold; return errors.New("only a hold") })
		})
		<-entered
		defer close(hold)
		defer func() {
			if len(early) > 0 {
				t.Errorf("call %d has returned, and nothing was written yet", <-early)
			}
		}()
		defer process.Eventually(t, time.Minute, "all wait for the writer", func() error {
			pending := db.Stats().Pending.Load() - 1
			if pending >= int64(writes) || len(early) > 0 {
				return nil
			}
			return fmt.Errorf("%d of %d", pending, writes)
		})
	}
	for i := range n {
		all.Go(func() {
			write(i)
			early <- i
		})
	}
}
