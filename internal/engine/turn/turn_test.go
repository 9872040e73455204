package turn_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/turn"
)

type taker interface {
	Acquire(ctx context.Context, account drive.AccountID) (end func(), err error)
}

func take(t *testing.T, turns taker, account drive.AccountID) (end func(), ok bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // who does not get one at once does not wait
	for range 50 {
		end, err := turns.Acquire(ctx, account)
		if err == nil {
			return end, true // a select with two ready cases takes either
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	return nil, false
}

// TestTurns checks the limits per account and in total, also when waiting requests give up.
func TestTurns(t *testing.T) {
	t.Parallel()
	turns := turn.New(2, 3)
	a, b := drive.NewID[drive.AccountID](), drive.NewID[drive.AccountID]()
	first, ok1 := take(t, turns, a)
	_, ok2 := take(t, turns, a)
	if !ok1 || !ok2 {
		t.Fatal("the first two had to wait")
	}
	if _, ok := take(t, turns, a); ok {
		t.Error("one account had three turns")
	}
	last, ok := take(t, turns, b)
	if !ok {
		t.Fatal("another account had to wait for the first")
	}
	if _, ok := take(t, turns, b); ok {
		t.Error("there were four turns of three")
	}
	first()
	if _, ok := take(t, turns, b); !ok {
		t.Error("a turn that was given back is not to be had")
	}
	last()
	if _, ok := take(t, turns, a); !ok {
		t.Error("a turn that was given back is not to be had by another account")
	}
}

// TestAccountsTakeTurns: the request of another account passes the waiting requests of one account.
func TestAccountsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := turn.NewLongLimiter(func() int { return 1 })
		a, b := drive.NewID[drive.AccountID](), drive.NewID[drive.AccountID]()
		var mu sync.Mutex
		var order []drive.AccountID
		var all sync.WaitGroup
		gate := make(chan struct{})
		begin := func(account drive.AccountID) {
			all.Go(func() {
				err := turns.Do(t.Context(), account, func() error {
					mu.Lock()
					order = append(order, account)
					mu.Unlock()
					<-gate
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for range 16 {
			begin(a)
		}
		begin(b)
		gate <- struct{}{} // one of them has ended
		synctest.Wait()
		mu.Lock()
		if len(order) != 3 || order[2] != b {
			t.Errorf("after one of 16 has ended, the turn is not that of the other account: %v", order)
		}
		mu.Unlock()
		close(gate)
		all.Wait()
	})
}

// In a database with many connections each account has one turn, and all together have half of the
// connections. A move to another database changes the number of turns.
func TestTurnsOfManyTransactions(t *testing.T) {
	t.Parallel()
	n := 16
	turns := turn.NewLongLimiter(func() int { return n })
	take := func() (taken int, account drive.AccountID) {
		account = drive.NewID[drive.AccountID]()
		for range 2 {
			if _, ok := take(t, turns, account); ok {
				taken++
			}
		}
		return taken, account
	}
	for i := range 8 {
		if got, _ := take(); got != 1 {
			t.Fatalf("account %d has %d turns, want 1", i, got)
		}
	}
	if got, _ := take(); got != 0 {
		t.Error("long transactions take more than half of the connections")
	}
	n = 1
	if got, _ := take(); got != 2 {
		t.Errorf("with one transaction at a time an account has %d turns, want 2", got)
	}
}
