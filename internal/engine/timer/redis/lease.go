package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/timer"
)

const (
	// maxRounds bounds how often one Lease asks: what it leaves then is asked for by the next one.
	maxRounds = 8
	// maxPerCall bounds what one script takes: nothing else runs on the server meanwhile.
	maxPerCall = 500

	// The width is how many shards are asked at a time (D4). It doubles when those that were asked
	// had less than there was room for and others wait, so that what is due in many shards is not
	// late for the sake of the first ones. It halves when they had more: a few calls that bring
	// many cost the server much less than many that bring few, and it is time of the server that a
	// backlog lacks.
	firstWidth = 8

	// reverify is how often an idle shard's server is asked who it is; before something fires it is
	// asked always.
	reverify = time.Second

	// broken is how long a shard is left alone whose last call failed, while others have something.
	broken = time.Second
)

// Lease implements timer.Queue. Of the shards that this instance owns it asks those where something
// comes up and those that it has not asked for MaxWait.
func (q *Queue) Lease(ctx context.Context, kind timer.Kind, limit int, hold time.Duration) (timer.Batch, error) {
	b := timer.Batch{Now: drive.TimeOf(q.opt.Now())}
	if !kind.Known() || limit <= 0 {
		return b, drive.Fail(drive.Internal, "kind", uint8(kind), "limit", limit)
	}
	if err := q.owners.refuses(); err != nil {
		return b, err
	}
	q.owners.begin()
	if err := q.greet(ctx); err != nil {
		return b, err
	}
	l := leasing{q: q, kind: kind, limit: limit, hold: hold, batch: &b}
	for range maxRounds {
		more, err := l.round(ctx)
		if err != nil {
			return b, err
		}
		if l.lost {
			b.Wait = time.Millisecond // its owner is told before more fires
			break
		}
		if !more {
			b.Wait = l.wait()
			break
		}
	}
	return b, q.afterLoss(ctx, &b)
}

// afterLoss finishes a batch: after a loss it learns the epochs of all shards before it tells, so
// that one loss is told once.
func (q *Queue) afterLoss(ctx context.Context, b *timer.Batch) error {
	if first := !q.told.Swap(true); first && q.lossSeen.Load() {
		b.Epoch, b.Wait = q.epoch.Load(), time.Millisecond // a loss is told as a difference: this is what it will differ from
		return nil
	}
	if q.lossSeen.Swap(false) {
		err := q.hello(ctx, true)
		q.epoch.Store(rand64() | 1)
		if err != nil && len(b.Fired) == 0 {
			return err
		}
	}
	b.Epoch = q.epoch.Load()
	return nil
}

// greet learns the epochs of all shards before the first lease: a loss can be told only from what
// was there before.
func (q *Queue) greet(ctx context.Context) error {
	if q.greeted.Load() {
		return nil
	}
	q.greeting.Lock()
	defer q.greeting.Unlock()
	if q.greeted.Load() {
		return nil
	}
	if err := q.hello(ctx, false); err != nil {
		return err
	}
	q.greeted.Store(true)
	return nil
}

// hello asks all shards for their epochs. Quiet is who tells of a loss itself.
func (q *Queue) hello(ctx context.Context, quiet bool) error {
	calls := make([]*call, len(q.shards))
	for i, sh := range q.shards {
		calls[i] = &call{script: helloScript, shard: sh, keys: []string{sh.meta}, quiet: quiet}
	}
	return q.run(ctx, calls...)
}

// leasing is one Lease under way.
type leasing struct {
	q     *Queue
	kind  timer.Kind
	limit int
	hold  time.Duration
	batch *timer.Batch
	asked bool // once
	lost  bool // a shard of those asked
	more  bool // there are more shards to ask than were asked in this round
}

// ask is what one shard is asked for.
type ask struct {
	shard *shard
	wait  int64 // ms until something comes up; negative, as it is overdue: the order of asking
	room  int
	check bool
}

// round asks the shards that may have something, the oldest first, and reports whether to go on.
func (l *leasing) round(ctx context.Context) (bool, error) {
	room := l.limit - len(l.batch.Fired)
	asks := l.due(room)
	if room == 0 || len(asks) == 0 {
		return false, nil
	}
	calls := make([]*call, len(asks))
	for i, a := range asks {
		calls[i] = l.call(&a)
	}
	l.asked = true
	err := l.q.run(ctx, calls...)
	for _, c := range calls {
		if c.err == nil {
			l.lost = l.lost || c.lost
			if took := l.took(c); took != nil && err == nil {
				err = took
			}
		} else {
			l.missed(c, true)
			c.shard.breaks(l.kind, l.q.opt.Now())
		}
	}
	l.adapt(asks, calls)
	if err != nil && len(l.batch.Fired) > 0 {
		return false, nil // what is leased is to be delivered; the next lease meets the error again
	}
	return err == nil, err
}

// due lists whom to ask. Of the room each gets its share: those that are asked only because nothing
// is known of them come last, and may get none.
func (l *leasing) due(room int) []ask {
	now := l.q.opt.Now()
	var known, broke, unknown []ask
	for _, sh := range l.q.shards {
		o := sh.outlook(l.kind, now)
		a := ask{shard: sh, wait: o.wait, check: o.check}
		switch {
		case o.wait <= 0 && (o.mine || l.q.owners.owns(sh.number)) && o.broke.IsZero():
			known = append(known, a)
		case o.wait <= 0 && (o.mine || l.q.owners.owns(sh.number)):
			broke = append(broke, a)
		case !l.asked && now.Sub(o.asked) >= l.q.owners.trust(sh.number, l.q.trust):
			unknown = append(unknown, a)
		}
	}
	known = l.withBroken(known, broke, now)
	slices.SortStableFunc(known, func(a, b ask) int { return cmp.Compare(a.wait, b.wait) })
	width := int(l.q.widths[l.kind].Load())
	l.more = len(known) > min(width, room)
	known = known[:min(len(known), width, room)]
	asks := append(known, unknown...)
	for i := range asks {
		share := room / (len(asks) - i)
		if i < len(known) {
			share = (room + len(known) - i - 1) / (len(known) - i)
		}
		asks[i].room = min(share, maxPerCall)
		room -= asks[i].room
	}
	return asks
}

// withBroken adds shards whose last call failed. While others have something only one of them is
// asked, and not at once: those of a server that is away are the most overdue, would fill the
// width, and would let each round wait for them.
func (l *leasing) withBroken(known, broke []ask, now time.Time) []ask {
	if len(known) == 0 {
		return broke
	}
	for _, a := range broke {
		if since := now.Sub(a.shard.outlook(l.kind, now).broke); since >= broken || since < 0 {
			return append(known, a)
		}
	}
	return known
}

// outlook is what is known of a shard.
type outlook struct {
	wait  int64     // ms until something comes up
	mine  bool      // this process armed it
	asked time.Time // when it was
	broke time.Time // when its last call failed; zero: it did not
	check bool      // its server is to be verified
}

func (sh *shard) outlook(k timer.Kind, now time.Time) outlook {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := &sh.lanes[k]
	wait := l.next
	if l.next != never {
		wait = l.next - sh.clockLocked(now)
	}
	return outlook{wait, l.mine, l.asked, l.broke, now.Sub(sh.verified) >= reverify}
}

func (l *leasing) call(a *ask) *call {
	now := l.q.opt.Now()
	clock := l.q.clockOf(a.shard, now)
	codes := []string{minuteSlice(clock - minute), minuteSlice(clock), minuteSlice(clock + minute), hourSlice(clock)}
	a.shard.mu.Lock()
	lane := &a.shard.lanes[l.kind]
	codes = append(codes, lane.heads...)
	lost := lane.lost
	lane.lost = ""
	check := 0
	if a.check {
		check, a.shard.verified = 1, now
	}
	a.shard.mu.Unlock()
	var name [callLen]byte
	_, _ = rand.Read(name[:]) // never fails
	name[0] |= 1              // it begins the tokens, and a token is not 0
	return &call{
		script: leaseScript, shard: a.shard, keys: a.shard.keys(l.kind, codes),
		args: []any{a.room, ceilMs(l.hold), string(name[:]), l.q.opt.Instance, check, lost},
	}
}

// maxLost bounds the calls that are remembered because their replies never came; what older ones
// leased comes back after its hold.
const maxLost = 16 * callLen

const callLen = 6 // bytes of a call's name

// missed notes a call without a reply: what it may have leased is asked for by the next one, under
// its name.
func (l *leasing) missed(c *call, all bool) {
	lost, name := c.args[5].(string), c.args[2].(string)
	if !all {
		name = ""
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	lane := &c.shard.lanes[l.kind]
	lane.lost += lost + name
	if n := len(lane.lost); n > maxLost {
		lane.lost = lane.lost[n-maxLost:]
	}
	lane.next = min(lane.next, c.shard.clockLocked(l.q.opt.Now()))
}

func (sh *shard) breaks(k timer.Kind, now time.Time) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.lanes[k].broke = now
}

// took takes a reply of LEASE into the batch.
func (l *leasing) took(c *call) error {
	now, b := l.q.opt.Now(), l.batch
	needs, heads := c.texts(1), c.texts(3)
	c.shard.mu.Lock()
	lane := &c.shard.lanes[l.kind]
	lane.next, lane.asked, lane.heads = c.next(), now, append(heads, needs...)
	lane.mine = lane.next <= c.now // due, and its owner has not taken it
	lane.broke = time.Time{}
	c.shard.mu.Unlock()
	b.Early += int(c.number(2))
	fired := c.texts(4)
	if len(fired) > 0 && len(b.Fired) == 0 {
		b.Now = drive.Time(c.now)
	}
	// Shards on servers whose clocks were found wrong have clocks of their own: one batch has one.
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
		l.missed(c, false)
	}
	return nil
}

// adapt lets the width follow what a round brought.
func (l *leasing) adapt(asks []ask, calls []*call) {
	full, drained := 0, 0
	for i, c := range calls {
		switch {
		case c.err != nil || asks[i].room == 0:
		case len(c.texts(4))/2 == asks[i].room:
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

// wait is how long nothing will come up in the shards of this instance, as far as is known.
func (l *leasing) wait() time.Duration {
	now, wait := l.q.opt.Now(), l.q.opt.MaxWait
	for _, sh := range l.q.shards {
		o := sh.outlook(l.kind, now)
		if o.wait == never || !o.mine && !l.q.owners.owns(sh.number) {
			continue
		}
		least := time.Duration(0)
		if !o.broke.IsZero() {
			least = max(0, min(broken, broken-now.Sub(o.broke)))
		}
		wait = min(wait, max(least, time.Duration(o.wait)*time.Millisecond))
	}
	return wait
}

func rand64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}
