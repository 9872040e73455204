package crossed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
)

// state is the sequential ledger.
type state struct {
	used    drive.ByteSize
	version int64
}

// answer is the reply to a begin of some size, with the version of the ledger after its
// transaction. The version gives the order of the transactions, which makes a history of a thousand
// concurrent operations decidable.
type answer struct {
	ok        bool
	available drive.ByteSize // by a refusal
	version   int64
}

// ledger is the model of a ledger that executes one begin at a time. It ignores the available bytes
// that a refusal reports, because they would multiply the orders to try; said checks them.
func ledger(total drive.ByteSize) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(was, input, output any) (bool, any) {
			s, size, out := was.(state), input.(drive.ByteSize), output.(answer)
			if !out.ok {
				return s.used+size > total, s
			}
			next := state{s.used + size, s.version + 1}
			return next.used <= total && out.version == next.version, next
		},
		Equal: func(a, b any) bool { return a == b },
	}
}

// A thousand concurrent begins on one account through two instances are linearizable: a sequential
// ledger gives the same replies in an order that agrees with the times of requests and replies. So
// the total is never exceeded, and no begin that fits is refused.
func TestLedgerIsLinearizable(t *testing.T) {
	t.Parallel()
	site, two := open(t)
	const total, begins = 1_000_000, 1000
	who := site.Account(t, total)
	start := time.Now()
	history := make([]porcupine.Operation, begins)
	var all sync.WaitGroup
	for i := range begins {
		all.Go(func() {
			size := drive.ByteSize(1000 * (1 + i%3))
			call := time.Since(start).Nanoseconds()
			out := begin(t, two[i%2], who, i, size)
			history[i] = porcupine.Operation{ClientId: i, Input: size, Call: call, Output: out, Return: time.Since(start).Nanoseconds()}
		})
	}
	all.Wait()
	check(t, two[0].db)
	ok := 0
	for _, op := range history {
		if op.Output.(answer).ok {
			ok++
		}
	}
	if ok < total/3000 || ok == begins {
		t.Errorf("%d of %d begins succeeded: the total was no limit, or more than that", ok, begins)
	}
	said(t, total, history)
	if got := porcupine.CheckOperationsTimeout(ledger(total), history, time.Minute); got != porcupine.Ok {
		t.Errorf("no ledger would have answered so: %s", got)
	}
}

// said compares what each refusal said with the ledger as it was then.
func said(t *testing.T, total drive.ByteSize, history []porcupine.Operation) {
	t.Helper()
	took := make([]drive.ByteSize, len(history)+1) // by the version that it made
	for _, op := range history {
		if out := op.Output.(answer); out.ok {
			took[out.version] += op.Input.(drive.ByteSize)
		}
	}
	left := make([]drive.ByteSize, len(took))
	left[0] = total
	for v := 1; v < len(took); v++ {
		left[v] = left[v-1] - took[v]
	}
	for _, op := range history {
		out := op.Output.(answer)
		if size := op.Input.(drive.ByteSize); !out.ok && (out.available != left[out.version] || size <= out.available) {
			t.Errorf("%d bytes were refused with %d available, when it was %d", size, out.available, left[out.version])
		}
	}
}

func begin(t *testing.T, in *instance, who drive.Who, i int, size drive.ByteSize) (out answer) {
	once := func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (upload.View, error)) (upload.View, error) {
		v, err := effect(ctx, tx)
		b, failed := quota.Ledger{}.Get(ctx, tx, who.Account) // whose row this transaction holds
		out.version = b.Version
		return v, errors.Join(err, failed)
	}
	b := upload.Begin{Path: drive.Path{drive.Name(fmt.Sprint(i))}, Size: size}
	_, err := in.uploads.Begin(context.Background(), who, b, once)
	for errors.Is(err, sqldb.ErrUnwritten) { // a busy machine keeps the last of a thousand waiting for longer than a transaction may
		_, err = in.uploads.Begin(context.Background(), who, b, once)
	}
	if out.ok = err == nil; out.ok {
		return out
	}
	fact, known := errors.AsType[*drive.Error](err)
	if !known || fact.Kind != drive.Quota {
		t.Errorf("begin: %v", err)
		return out
	}
	out.available = fact.Args["available"].(drive.ByteSize)
	return out
}

// The check can fail.
func TestOverdrawnHistoryIsRejected(t *testing.T) {
	t.Parallel()
	ok := func(call, end int64, version int64) porcupine.Operation {
		return porcupine.Operation{ClientId: int(call), Input: drive.ByteSize(6), Call: call, Output: answer{ok: true, version: version}, Return: end}
	}
	if porcupine.CheckOperations(ledger(10), []porcupine.Operation{ok(1, 5, 1), ok(2, 6, 2)}) {
		t.Error("two begins of 6 bytes were taken for legal with a total of 10")
	}
	if porcupine.CheckOperations(ledger(20), []porcupine.Operation{ok(1, 2, 2), ok(3, 4, 1)}) {
		t.Error("two begins were taken for legal of which the later one came first")
	}
}
