package webhook

import (
	"context"
	"errors"
	"sync"

	"example.org/smartdrive/internal/base/drive"
)

// SendDue delivers once to all webhooks that are due.
func SendDue(ctx context.Context, w *Webhooks) error {
	all, err := w.listDue(ctx, dueHook{})
	for _, d := range all {
		err = errors.Join(err, w.deliver(ctx, d.id))
	}
	return err
}

// Look runs one poll and waits for the turns it started.
func Look(ctx context.Context, w *Webhooks) error {
	var all sync.WaitGroup
	defer all.Wait()
	return w.poll(ctx, &all, make(chan struct{}, 1))
}

// SendDueAndDie is SendDue of a process that writes nothing after ctx has ended.
func SendDueAndDie(ctx context.Context, w *Webhooks) error {
	w.contextAfterCancel = func(context.Context) context.Context { return ctx }
	return SendDue(ctx, w)
}

// Due returns the webhooks that one poll finds.
func Due(ctx context.Context, w *Webhooks) (ids []ID, err error) {
	all, err := w.listDue(ctx, dueHook{})
	for _, d := range all {
		ids = append(ids, d.id)
	}
	return ids, err
}

// TakeTurns acquires turns for as many of an account's webhooks as possible and returns their
// number.
func TakeTurns(w *Webhooks, account drive.AccountID, ids ...ID) (n int) {
	for _, id := range ids {
		if w.limiter.acquire(id, account, w.now()) {
			n++
		}
	}
	return n
}

// DueOfALook is how many webhooks one poll finds.
const DueOfALook = duePage * pagesPerPoll

// Slow marks accounts as having slow receivers.
func Slow(w *Webhooks, accounts ...drive.AccountID) {
	w.limiter.mu.Lock()
	defer w.limiter.mu.Unlock()
	for _, account := range accounts {
		w.limiter.slow[account] = w.now()
	}
}
