package webhook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/engine/sqldb"
)

const (
	lookEvery = 5 * time.Second       // for what other instances have written, and what is due again
	lookPause = 50 * time.Millisecond // between looks because of new entries: there may be a thousand a second
	duePage   = 256                   // webhooks that one statement of a look finds
	duePages  = 16                    // statements of a look: what is behind them is found by the next one
	latest    = 3 * time.Hour         // more than an attempt is put off: what is due later was noted by a clock that was ahead
	turnTime  = 5 * time.Second       // after which others have their turn before one with more to send
)

// Run sends until ctx is done. One process of an installation does; a second one repeats entries
// and loses none.
func (w *Webhooks) Run(ctx context.Context) error {
	watch := w.parts.Log.Watch()
	defer watch.Close()
	var all sync.WaitGroup
	defer all.Wait()
	again := make(chan struct{}, 1) // somebody's turn has ended, and others may have waited for it
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var outage telemetry.Outage
	for ctx.Err() == nil {
		outage.Note(ctx, w.opt.Log, "the look for webhooks that are due failed and will be repeated", w.look(ctx, &all, again))
		await(ctx, watch.Ready, again, tick.C)
	}
	return nil
}

// await returns when it is time for the next look. New entries are not looked at for lookPause
// after the look before: one for each of them would take a twentieth of the processor time that a
// server needs to store small files, also where nobody has a webhook.
func await(ctx context.Context, ready, again <-chan struct{}, tick <-chan time.Time) {
	pause := time.NewTimer(lookPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return
	case <-again:
		return
	}
	select {
	case <-ctx.Done():
	case <-ready:
	case <-again:
	case <-tick:
	}
}

// due is a webhook that something waits for.
type due struct {
	id      ID
	account drive.AccountID
	sent    drive.Time
}

// look begins to send to those that something waits for, and that have a turn. It reads on behind
// those that have none: thousands whose receivers are slow would hide all others.
func (w *Webhooks) look(ctx context.Context, all *sync.WaitGroup, again chan<- struct{}) error {
	for range duePages {
		page, err := w.due(ctx, w.seen)
		if err != nil {
			return err
		}
		w.begin(ctx, page, all, again)
		if len(page) < duePage {
			w.seen = due{}
			return nil
		}
		w.seen = page[len(page)-1]
		if w.turns.full() { // the end of a turn begins the next look, at those that have waited longest
			w.seen = due{}
			return nil
		}
	}
	return nil
}

// begin sends to those of a page that have a turn.
func (w *Webhooks) begin(ctx context.Context, page []due, all *sync.WaitGroup, again chan<- struct{}) {
	for _, d := range page {
		if w.turns.pauses(d.id, w.now()) || !w.turns.take(d.id, d.account, w.now()) {
			continue
		}
		all.Go(func() {
			err := w.deliverSafely(ctx, d.id)
			w.turns.leave(d.id, d.account)
			if err != nil {
				w.opt.Log.WarnContext(ctx, "send to a webhook", "webhook", d.id, "error", err)
				if !errors.Is(err, errMoved) { // then the next look is soon enough
					w.turns.failed(d.id, w.now())
				}
				return
			}
			w.turns.went(d.id)
			select {
			case again <- struct{}{}:
			default:
			}
		})
	}
}

// deliverSafely is deliver that a panic does not end the process with: the same entry would end the
// next one, too.
func (w *Webhooks) deliverSafely(ctx context.Context, id ID) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return w.deliver(ctx, id)
}

// due lists webhooks that something waits for, those that have waited longest for an attempt first,
// behind one that was listed before. Most of those who get no turn now are left out.
func (w *Webhooks) due(ctx context.Context, after due) ([]due, error) {
	now := w.now()
	args := append(append([]any{now, now.Add(latest)}, w.turns.over(now)...), after.sent, after.sent, after.id.String(), duePage)
	rows, err := w.parts.DB.Query(ctx, `SELECT w.id, w.account_id, w.sent_at FROM webhooks w WHERE w.state = 'active' AND (w.not_before <= ? OR w.not_before > ?)
		AND w.id NOT IN (`+sqldb.Marks(mostBusy)+`) AND w.account_id NOT IN (`+sqldb.Marks(mostOver)+`)
		AND EXISTS (SELECT 1 FROM activity a WHERE a.account_id = w.account_id AND a.id > w.position)
		AND (w.sent_at > ? OR w.sent_at = ? AND w.id > ?) ORDER BY w.sent_at, w.id LIMIT ?`, args...)
	all, err := sqldb.Scan(rows, err, func(d *due, scan func(...any) error) error { return scan(&d.id, &d.account, &d.sent) })
	if err != nil {
		return nil, fmt.Errorf("look for webhooks: %w", err)
	}
	return all, nil
}
