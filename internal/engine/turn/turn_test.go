package turn_test

import (
	"context"
	"errors"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/turn"
)

func take(t *testing.T, turns *turn.Turns, account drive.AccountID) (end func(), ok bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // who does not get one at once does not wait
	for range 50 {
		end, err := turns.Take(ctx, account)
		if err == nil {
			return end, true // a select with two ready cases takes either
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	return nil, false
}

// An account has no more turns than are its own, and all have no more than there are, whoever gives
// up waiting.
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
