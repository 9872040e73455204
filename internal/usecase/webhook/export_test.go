package webhook

import (
	"context"
	"errors"
	"sync"

	"smartdrive/internal/base/drive"
)

// SendDue sends once to all that something waits for.
func SendDue(ctx context.Context, w *Webhooks) error {
	all, err := w.listDue(ctx, dueHook{})
	for _, d := range all {
		err = errors.Join(err, w.deliver(ctx, d.id))
	}
	return err
}

// Look is one look of Run, and waits for what it has begun.
func Look(ctx context.Context, w *Webhooks) error {
	var all sync.WaitGroup
	defer all.Wait()
	return w.poll(ctx, &all, make(chan struct{}, 1))
}

// SendDueAndDie is SendDue of a process that writes nothing more once ctx is done.
func SendDueAndDie(ctx context.Context, w *Webhooks) error {
	w.contextAfterCancel = func(context.Context) context.Context { return ctx }
	return SendDue(ctx, w)
}

// Due are the webhooks that one look finds.
func Due(ctx context.Context, w *Webhooks) (ids []ID, err error) {
	all, err := w.listDue(ctx, dueHook{})
	for _, d := range all {
		ids = append(ids, d.id)
	}
	return ids, err
}

// TakeTurns begins to send to as many webhooks of an account as may be, and returns how many.
func TakeTurns(w *Webhooks, account drive.AccountID, ids ...ID) (n int) {
	for _, id := range ids {
		if w.limiter.acquire(id, account, w.now()) {
			n++
		}
	}
	return n
}

// DueOfALook is how many webhooks one look finds.
const DueOfALook = duePage * pagesPerPoll

// Slow counts accounts among those with slow receivers.
func Slow(w *Webhooks, accounts ...drive.AccountID) {
	w.limiter.mu.Lock()
	defer w.limiter.mu.Unlock()
	for _, account := range accounts {
		w.limiter.slow[account] = w.now()
	}
}
