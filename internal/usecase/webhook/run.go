package webhook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Timing and bounds of Run.
const (
	pollInterval = 5 * time.Second       // for entries of other instances, and retries that are due
	minPollPause = 50 * time.Millisecond // between polls because of new entries, of which there may be a thousand per second
	duePage      = 256                   // webhooks per statement of a poll
	pagesPerPoll = 16                    // statements per poll; the next poll continues
	maxDelay     = 3 * time.Hour         // exceeds every retry delay; a later due time was written by a clock that was ahead
	maxTurn      = 5 * time.Second       // after which a webhook with more entries yields to others
)

// Run delivers entries until ctx ends. One process per installation should run it; a second one
// sends duplicates and loses nothing.
func (w *Webhooks) Run(ctx context.Context) error {
	watch := w.parts.Log.Watch()
	defer watch.Close()
	var all sync.WaitGroup
	defer all.Wait()
	turnEnded := make(chan struct{}, 1) // a turn ended, which may let others start
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var outage telemetry.Outage
	for ctx.Err() == nil {
		outage.Record(ctx, w.opt.Log, "polling for due webhooks failed; retrying", w.poll(ctx, &all, turnEnded))
		waitForWork(ctx, watch.Ready, turnEnded, tick.C)
	}
	return nil
}

// waitForWork returns when the next poll is due. New entries cause no poll within minPollPause of
// the last one: polling for each entry would take a twentieth of the CPU time of storing small
// files, even without webhooks.
func waitForWork(ctx context.Context, ready, again <-chan struct{}, tick <-chan time.Time) {
	pause := time.NewTimer(minPollPause)
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

// dueHook is a webhook with entries to send.
type dueHook struct {
	id          ID
	account     drive.AccountID
	lastAttempt drive.Time // zero: never sent to
}

// poll starts turns of webhooks that have entries to send, as the limiter allows. It pages past
// those without a turn; otherwise thousands with slow receivers would hide the others.
func (w *Webhooks) poll(ctx context.Context, all *sync.WaitGroup, again chan<- struct{}) error {
	for range pagesPerPoll {
		page, err := w.listDue(ctx, w.cursor)
		if err != nil {
			return err
		}
		w.startTurns(ctx, page, all, again)
		if len(page) < duePage {
			w.cursor = dueHook{}
			return nil
		}
		w.cursor = page[len(page)-1]
		if w.limiter.isFull() { // the end of a turn triggers the next poll, which starts with the longest waiting
			w.cursor = dueHook{}
			return nil
		}
	}
	return nil
}

// startTurns starts a goroutine, counted in all, for each webhook of a page that gets a turn;
// others wait for the next poll. A failed turn pauses the webhook.
func (w *Webhooks) startTurns(ctx context.Context, page []dueHook, all *sync.WaitGroup, again chan<- struct{}) {
	for _, d := range page {
		if w.limiter.isPaused(d.id, w.now()) || !w.limiter.acquire(d.id, d.account, w.now()) {
			continue
		}
		all.Go(func() {
			err := w.deliverRecovering(ctx, d.id)
			w.limiter.release(d.id, d.account)
			if err != nil {
				w.opt.Log.WarnContext(ctx, "delivery to a webhook failed on this server; retrying later", "webhook", d.id, "error", err)
				if !errors.Is(err, errStale) { // errStale: retry at the next poll without a pause
					w.limiter.turnFailed(d.id, w.now())
				}
				return
			}
			w.limiter.turnSucceeded(d.id)
			select {
			case again <- struct{}{}:
			default:
			}
		})
	}
}

// deliverRecovering is deliver that returns a panic as an error; otherwise the same entry would
// crash the process again and again.
func (w *Webhooks) deliverRecovering(ctx context.Context, id ID) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return w.deliver(ctx, id)
}

// listDue lists a page of webhooks with entries to send, least recently attempted first, after the
// given one. It excludes most of those that cannot get a turn now.
func (w *Webhooks) listDue(ctx context.Context, after dueHook) ([]dueHook, error) {
	now := w.now()
	args := append(append([]any{now, now.Add(maxDelay)}, w.limiter.excluded(now)...), after.lastAttempt, after.lastAttempt, after.id.String(), duePage)
	rows, err := w.parts.DB.Query(ctx, `SELECT w.id, w.account_id, w.sent_at FROM webhooks w WHERE w.state = 'active' AND (w.not_before <= ? OR w.not_before > ?)
		AND w.id NOT IN (`+sqldb.Placeholders(maxRunning)+`) AND w.account_id NOT IN (`+sqldb.Placeholders(maxExcludedAccounts)+`)
		AND EXISTS (SELECT 1 FROM activity a WHERE a.account_id = w.account_id AND a.id > w.position)
		AND (w.sent_at > ? OR w.sent_at = ? AND w.id > ?) ORDER BY w.sent_at, w.id LIMIT ?`, args...)
	all, err := sqldb.Scan(rows, err, func(d *dueHook, scan func(...any) error) error { return scan(&d.id, &d.account, &d.lastAttempt) })
	if err != nil {
		return nil, fmt.Errorf("look for webhooks: %w", err)
	}
	return all, nil
}
