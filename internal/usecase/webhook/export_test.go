package webhook

import (
	"context"
	"errors"
)

// SendDue sends once to all that something waits for.
func SendDue(ctx context.Context, w *Webhooks) error {
	all, err := w.due(ctx)
	for _, d := range all {
		err = errors.Join(err, w.deliver(ctx, d.id))
	}
	return err
}

// SendDueAndDie is SendDue of a process that writes nothing more once ctx is done.
func SendDueAndDie(ctx context.Context, w *Webhooks) error {
	w.settleLate = func(context.Context) context.Context { return ctx }
	return SendDue(ctx, w)
}
