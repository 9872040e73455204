package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

const (
	// maxRounds bounds the rounds of calls in one Lease; the next Lease continues.
	maxRounds = 8
	// maxPerCall bounds the timers of one script call, because the server does nothing else
	// meanwhile.
	maxPerCall = 500

	// The width is the number of shards asked in one round (D4). It doubles when the asked
	// shards returned less than requested and other shards wait, so that those are not late. It
	// halves when the asked shards were full: in a backlog the server's time is scarce, and few
	// large calls cost less than many small ones.
	firstWidth = 8

	// reverify is the interval for checking the server identity of an idle shard. Before a
	// delivery the identity is always checked.
	reverify = time.Second

	// failurePause is the time for which a failed shard is skipped while other shards have due
	// timers.
	failurePause = time.Second
)

// Lease leases up to limit due timers of one kind for the duration hold (timer.Queue). It asks the
// shards that may have due timers: those owned by this instance, those it armed itself, and those
// not polled for a while. It fails with the error of Run's layout check, if any.
func (q *Queue) Lease(ctx context.Context, kind timer.Kind, limit int, hold time.Duration) (timer.Batch, error) {
	b := timer.Batch{Now: drive.TimeOf(q.opt.Now())}
	if !kind.Known() || limit <= 0 {
		return b, drive.Fail(drive.Internal, "kind", uint8(kind), "limit", limit)
	}
	if err := q.owners.layoutError(); err != nil {
		return b, err
	}
	q.owners.join()
	if err := q.loadEpochs(ctx); err != nil {
		return b, err
	}
	l := leaseRun{q: q, kind: kind, limit: limit, hold: hold, batch: &b}
	for range maxRounds {
		more, err := l.round(ctx)
		if err != nil {
			return b, err
		}
		if l.lost {
			b.Wait = time.Millisecond // the owner must learn of the loss before more timers fire
			break
		}
		if !more {
			b.Wait = l.wait()
			break
		}
	}
	return b, q.afterLoss(ctx, &b)
}

// afterLoss sets b.Epoch, by whose change the engine notices that timers were lost. After a loss it
// first fetches the epochs of all shards, so that one loss is reported as one new epoch. It returns
// an error of fetching only if the batch has no fired timers.
func (q *Queue) afterLoss(ctx context.Context, b *timer.Batch) error {
	if first := !q.epochReported.Swap(true); first && q.lossSeen.Load() {
		b.Epoch, b.Wait = q.epoch.Load(), time.Millisecond // report the old epoch first: the engine detects a loss by a change
		return nil
	}
	if q.lossSeen.Swap(false) {
		err := q.fetchEpochs(ctx, true)
		q.epoch.Store(rand64() | 1)
		if err != nil && len(b.Fired) == 0 {
			return err
		}
	}
	b.Epoch = q.epoch.Load()
	return nil
}

// loadEpochs fetches the epochs of all shards, once, before the first lease: a later loss shows as
// another epoch. If it fails, nothing may be leased, and the next call tries again.
func (q *Queue) loadEpochs(ctx context.Context) error {
	if q.epochsLoaded.Load() {
		return nil
	}
	q.epochsMu.Lock()
	defer q.epochsMu.Unlock()
	if q.epochsLoaded.Load() {
		return nil
	}
	if err := q.fetchEpochs(ctx, false); err != nil {
		return err
	}
	q.epochsLoaded.Store(true)
	return nil
}

// fetchEpochs asks all shards for their epochs and stores them. With lossKnown set, a loss found
// now is not reported again. It fails if any shard does not answer; the others are stored.
func (q *Queue) fetchEpochs(ctx context.Context, lossKnown bool) error {
	calls := make([]*call, len(q.shards))
	for i, sh := range q.shards {
		calls[i] = &call{script: helloScript, shard: sh, keys: []string{sh.meta}, lossKnown: lossKnown}
	}
	return q.run(ctx, calls...)
}

// leaseRun is the state of one Lease.
type leaseRun struct {
	q     *Queue
	kind  timer.Kind
	limit int           // timers to lease at most
	hold  time.Duration // length of the leases
	batch *timer.Batch  // the result, filled round by round
	asked bool          // a round was made
	lost  bool          // a called shard had lost its timers
	more  bool          // more shards have due timers than the last round asked
}

// request is the lease request to one shard.
type request struct {
	shard *shard
	wait  int64 // ms until a timer is reached; negative when overdue. Shards are asked in this order
	room  int   // timers to lease at most
	check bool  // verify the identity of the server
}

// round asks the most overdue shards once and adds their timers to the batch. The bool reports
// whether another round is useful. It returns an error only if the batch is empty; otherwise the
// leased timers are delivered first.
func (l *leaseRun) round(ctx context.Context) (bool, error) {
	room := l.limit - len(l.batch.Fired)
	requests := l.due(room)
	if room == 0 || len(requests) == 0 {
		return false, nil
	}
	calls := make([]*call, len(requests))
	for i, a := range requests {
		calls[i] = l.call(&a)
	}
	l.asked = true
	err := l.q.run(ctx, calls...)
	for _, c := range calls {
		if c.err == nil {
			l.lost = l.lost || c.lost
			if addErr := l.addReply(c); addErr != nil && err == nil {
				err = addErr
			}
		} else {
			l.noteLostReply(c, true)
			c.shard.markFailed(l.kind, l.q.opt.Now())
		}
	}
	l.adapt(requests, calls)
	if err != nil && len(l.batch.Fired) > 0 {
		return false, nil // deliver the leased timers; the next lease meets the error again
	}
	return err == nil, err
}

// due returns the lease requests of the next round, one per shard, and divides room timers among
// them. Shards that are only polled, without a known due timer, come last and may get no room.
func (l *leaseRun) due(room int) []request {
	now := l.q.opt.Now()
	var known, failed, unknown []request
	for _, sh := range l.q.shards {
		o := sh.outlook(l.kind, now)
		a := request{shard: sh, wait: o.wait, check: o.check}
		switch {
		case o.wait <= 0 && (o.reliable || l.q.owners.owns(sh.number)) && o.failedAt.IsZero():
			known = append(known, a)
		case o.wait <= 0 && (o.reliable || l.q.owners.owns(sh.number)):
			failed = append(failed, a)
		case !l.asked && now.Sub(o.asked) >= l.q.owners.pollAfter(sh.number, l.q.pollAfter):
			unknown = append(unknown, a)
		}
	}
	known = l.withFailed(known, failed, now)
	slices.SortStableFunc(known, func(a, b request) int { return cmp.Compare(a.wait, b.wait) })
	width := int(l.q.widths[l.kind].Load())
	l.more = len(known) > min(width, room)
	known = known[:min(len(known), width, room)]
	requests := append(known, unknown...)
	for i := range requests {
		share := room / (len(requests) - i)
		if i < len(known) {
			share = (room + len(known) - i - 1) / (len(known) - i)
		}
		requests[i].room = min(share, maxPerCall)
		room -= requests[i].room
	}
	return requests
}

// withFailed adds failed shards to the known ones. While other shards have due timers, it adds only
// one, and only after failurePause. Otherwise the shards of an unreachable server, always the most
// overdue, would fill every round and delay it.
func (l *leaseRun) withFailed(known, failed []request, now time.Time) []request {
	if len(known) == 0 {
		return failed
	}
	for _, a := range failed {
		if since := now.Sub(a.shard.outlook(l.kind, now).failedAt); since >= failurePause || since < 0 {
			return append(known, a)
		}
	}
	return known
}

// outlook is what this process expects of one kind in a shard.
type outlook struct {
	wait     int64     // ms until a timer is reached
	reliable bool      // wait is reliable although another instance may own the shard
	asked    time.Time // time of the last lease
	failedAt time.Time // time of the last failed call; zero: it succeeded
	check    bool      // the identity of the server must be verified
}

// outlook returns what this process expects of kind k in the shard at time now: the time until the
// next timer is due, and how far that can be trusted.
func (sh *shard) outlook(k timer.Kind, now time.Time) outlook {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := &sh.kinds[k]
	wait := l.next
	if l.next != never {
		wait = l.next - sh.clockLocked(now)
	}
	return outlook{wait, l.reliable, l.asked, l.failedAt, now.Sub(sh.verified) >= reverify}
}

// call builds the LEASE call for a request. It moves the names of earlier calls whose replies were
// lost from the shard's state into the call, which delivers their timers again.
func (l *leaseRun) call(a *request) *call {
	now := l.q.opt.Now()
	clock := l.q.clockOf(a.shard, now)
	codes := []string{minuteSlice(clock - minute), minuteSlice(clock), minuteSlice(clock + minute), hourSlice(clock)}
	a.shard.mu.Lock()
	state := &a.shard.kinds[l.kind]
	codes = append(codes, state.heads...)
	lost := state.lost
	state.lost = ""
	check := 0
	if a.check {
		check, a.shard.verified = 1, now
	}
	a.shard.mu.Unlock()
	var name [callLen]byte
	_, _ = rand.Read(name[:]) // never fails
	name[0] |= 1              // the name is the start of the tokens, and a token is not 0
	return &call{
		script: leaseScript, shard: a.shard, keys: a.shard.keys(l.kind, codes),
		args: []any{a.room, ceilMs(l.hold), string(name[:]), l.q.opt.Instance, check, lost},
	}
}

// maxLost bounds the stored names of calls with a lost reply. Timers of older calls return after
// their lease expires.
const maxLost = 16 * callLen

const callLen = 6 // bytes of the name of a call

// noteLostReply stores the names of calls whose leases the next call must recover: the names that c
// carried and, with all set, c itself.
func (l *leaseRun) noteLostReply(c *call, all bool) {
	lost, name := c.args[5].(string), c.args[2].(string)
	if !all {
		name = ""
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	state := &c.shard.kinds[l.kind]
	state.lost += lost + name
	if n := len(state.lost); n > maxLost {
		state.lost = state.lost[n-maxLost:]
	}
	state.next = min(state.next, c.shard.clockLocked(l.q.opt.Now()))
}

// markFailed records a failed call for kind k.
func (sh *shard) markFailed(k timer.Kind, now time.Time) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.kinds[k].failedAt = now
}

// addReply adds the fired timers in the reply of a LEASE call to the batch and updates what is
// expected of the shard. Times are converted to the clock of the batch. It fails if the reply is
// damaged.
func (l *leaseRun) addReply(c *call) error {
	now, b := l.q.opt.Now(), l.batch
	needs, heads := c.texts(1), c.texts(3)
	c.shard.mu.Lock()
	state := &c.shard.kinds[l.kind]
	state.next, state.asked, state.heads = c.next(), now, append(heads, needs...)
	state.reliable = state.next <= c.now // still due: the owner of the shard has not leased it
	state.failedAt = time.Time{}
	c.shard.mu.Unlock()
	b.Early += int(c.number(2))
	fired := c.texts(4)
	if len(fired) > 0 && len(b.Fired) == 0 {
		b.Now = drive.Time(c.now)
	}
	// Shards on servers with corrected clocks have different clocks: convert all times to one
	// clock per batch.
	shift := b.Now.Sub(drive.Time(c.now))
	if shift.Abs() < time.Minute {
		shift = 0
	}
	for i := 0; i+1 < len(fired); i += 2 {
		f, _, err := parseFired(fired[i+1])
		if err != nil {
			return fmt.Errorf("lease: %w", err)
		}
		f.Key.Kind, f.Shard = l.kind, c.shard.name
		copy(f.Key.ID[:], fired[i])
		f.First, f.Last, f.Due = f.First.Add(shift), f.Last.Add(shift), f.Due.Add(shift)
		if f.Delivery > 1 {
			l.q.count.Republished.Add(1)
		}
		b.Fired = append(b.Fired, f)
	}
	if c.number(5) > 0 {
		l.noteLostReply(c, false)
	}
	return nil
}

// adapt changes how many shards the next round of this kind asks at once: it doubles the width if
// no shard filled its room and more may be due, and halves it if several did and none was drained.
// Failed calls do not count. The change is lost if another round changes the width concurrently.
func (l *leaseRun) adapt(requests []request, calls []*call) {
	full, drained := 0, 0
	for i, c := range calls {
		switch {
		case c.err != nil || requests[i].room == 0:
		case len(c.texts(4))/2 == requests[i].room:
			full++
		default:
			drained++
		}
	}
	w := &l.q.widths[l.kind]
	switch n := w.Load(); {
	case full == 0 && drained > 0 && l.more && int(n) < len(l.q.shards):
		w.CompareAndSwap(n, 2*n)
	case full > 1 && drained == 0 && n > 1:
		w.CompareAndSwap(n, n/2)
	}
}

// wait returns the time until a timer may be reached in the shards of this instance, at most
// MaxWait.
func (l *leaseRun) wait() time.Duration {
	now, wait := l.q.opt.Now(), l.q.opt.MaxWait
	for _, sh := range l.q.shards {
		o := sh.outlook(l.kind, now)
		if o.wait == never || !o.reliable && !l.q.owners.owns(sh.number) {
			continue
		}
		least := time.Duration(0)
		if !o.failedAt.IsZero() {
			least = max(0, min(failurePause, failurePause-now.Sub(o.failedAt)))
		}
		wait = min(wait, max(least, time.Duration(o.wait)*time.Millisecond))
	}
	return wait
}

// rand64 returns a random number.
func rand64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}
