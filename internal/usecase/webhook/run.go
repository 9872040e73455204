package webhook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	lookEvery = 5 * time.Second       // for what other instances have written, and what is due again
	lookPause = 50 * time.Millisecond // between looks because of new entries: there may be a thousand a second
	atOnce    = 32                    // webhooks that are being sent to
	ofOne     = 4                     // of them of one account
	duePage   = 256                   // webhooks that one look finds
	latest    = 3 * time.Hour         // more than an attempt is put off: what is due later was noted by a clock that was ahead
	turnTime  = 30 * time.Second      // after which others have their turn before one with more to send
)

// turns say who is being sent to, and who is not for a while.
type turns struct {
	mu     sync.Mutex
	busy   map[ID]bool
	of     map[drive.AccountID]int
	paused map[ID]pause
}

// pause is after turns that failed here: what was sent could not be noted because the disk is full,
// say, and each turn sends it again.
type pause struct {
	failures int
	until    drive.Time
}

// take is false while the webhook, or as many of its account as may be, are being sent to.
func (t *turns) take(id ID, account drive.AccountID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[id] || t.of[account] >= ofOne || len(t.busy) >= atOnce {
		return false
	}
	t.busy[id] = true
	t.of[account]++
	return true
}

func (t *turns) leave(id ID, account drive.AccountID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, id)
	if t.of[account]--; t.of[account] == 0 {
		delete(t.of, account)
	}
}

// pauses reports whether a webhook is to be left alone; a longer pause than any is of a clock that
// was ahead.
func (t *turns) pauses(id ID, now drive.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	until := t.paused[id].until
	return until > now && until <= now.Add(latest)
}

// failed gives a webhook a pause, which the next turn that does not fail ends.
func (t *turns) failed(id ID, now drive.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.paused[id].failures + 1
	t.paused[id] = pause{n, now.Add(lookEvery << min(n, 6))} // 10 s to 5 min
}

func (t *turns) went(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.paused, id)
}

// over are those who get no turn before another one has ended, as arguments of a statement whose
// text is always the same: webhooks, and accounts.
func (t *turns) over() (args []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.busy {
		args = append(args, id.String())
	}
	for len(args) < atOnce {
		args = append(args, "")
	}
	for account, n := range t.of {
		if n >= ofOne {
			args = append(args, account.String())
		}
	}
	for len(args) < atOnce+atOnce/ofOne {
		args = append(args, "")
	}
	return args
}

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
	for ctx.Err() == nil {
		if err := w.look(ctx, &all, again); err != nil && ctx.Err() == nil {
			w.opt.Log.WarnContext(ctx, "look for webhooks that are due", "error", err)
		}
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
}

// look begins to send to those that something waits for, and that have a turn.
func (w *Webhooks) look(ctx context.Context, all *sync.WaitGroup, again chan<- struct{}) error {
	found, err := w.due(ctx)
	for _, d := range found {
		if w.turns.pauses(d.id, w.now()) || !w.turns.take(d.id, d.account) {
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
	return err
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

// due lists webhooks that something waits for, those that have waited longest for an attempt first.
// Those who get no turn now are left out: some accounts have more of them than a look finds, and
// would hide all others behind them.
func (w *Webhooks) due(ctx context.Context) ([]due, error) {
	args := append(append([]any{w.now(), w.now().Add(latest)}, w.turns.over()...), duePage)
	rows, err := w.parts.DB.Query(ctx, `SELECT w.id, w.account_id FROM webhooks w WHERE w.state = 'active' AND (w.not_before <= ? OR w.not_before > ?)
		AND w.id NOT IN (`+sqldb.Marks(atOnce)+`) AND w.account_id NOT IN (`+sqldb.Marks(atOnce/ofOne)+`)
		AND EXISTS (SELECT 1 FROM activity a WHERE a.account_id = w.account_id AND a.id > w.position) ORDER BY w.sent_at LIMIT ?`, args...)
	all, err := sqldb.Scan(rows, err, func(d *due, scan func(...any) error) error { return scan(&d.id, &d.account) })
	if err != nil {
		return nil, fmt.Errorf("look for webhooks: %w", err)
	}
	return all, nil
}
