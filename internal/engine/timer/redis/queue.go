package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// Queue is a timer.Queue in Redis. It is safe for concurrent use. Only while Run runs are touches
// sent and does the instance share in the shards.
type Queue struct {
	opt       Options
	client    redis.UniversalClient
	shards    []*shard
	pollAfter time.Duration // time after which a shard without a known due timer is polled

	epoch         atomic.Uint64 // epoch of the whole queue as reported by this process
	lossSeen      atomic.Bool   // a loss was found and not reported yet
	epochReported atomic.Bool   // an engine has received epoch
	epochsMu      sync.Mutex
	epochsLoaded  atomic.Bool
	steps         stepDedup
	owners        owners
	touches       touches
	widths        []atomic.Int32 // by kind: shards asked per round
	count         Counters
	sampler       sampler
}

var (
	_ timer.Queue     = (*Queue)(nil)
	_ timer.Inspector = (*Queue)(nil)
	_ timer.Sampler   = (*Queue)(nil)
)

// New returns a queue. It connects on first use. The caller must call Close.
func New(opt Options) *Queue {
	opt.setDefaults()
	kinds := len(timer.Kinds()) + 1
	q := &Queue{opt: opt, client: opt.client(), pollAfter: opt.MaxWait, widths: make([]atomic.Int32, kinds)}
	q.epoch.Store(rand.Uint64() | 1)
	for n := range opt.Shards {
		sh := newShard(opt.Namespace, n)
		sh.name = fmt.Sprintf("%d/%d", n, opt.Shards)
		q.shards = append(q.shards, sh)
	}
	for i := range q.widths {
		q.widths[i].Store(firstWidth)
	}
	q.touches.wake, q.owners.joins = make(chan struct{}, 1), make(chan struct{})
	return q
}

// Close closes all connections. The queue cannot be used afterwards.
func (q *Queue) Close() error { return q.client.Close() }

// MaxWait returns the longest Wait that a Lease returns.
func (q *Queue) MaxWait() time.Duration { return q.opt.MaxWait }

// shardOf returns the shard of a key. The hash is part of the stored format.
func (q *Queue) shardOf(k timer.Key) *shard {
	a, b := binary.LittleEndian.Uint64(k.ID[:8]), binary.LittleEndian.Uint64(k.ID[8:])
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15^uint64(k.Kind)<<56, b^0xe7037ed1a0b428db)
	hi, lo = bits.Mul64(hi^lo, 0x8ebc6af09c88c6e3)
	return q.shards[(hi^lo)%uint64(len(q.shards))]
}

// batch holds the items of one script call: one shard and kind, each id once.
type batch struct {
	shard  *shard
	kind   timer.Kind
	items  []string // encoded entries
	slices []string // slices of the index that the items may enter
}

// maxItems bounds a batch: Lua's stack holds some thousands, and the server does nothing else
// meanwhile.
const maxItems = 500

// batcher groups items into batches.
type batcher struct {
	q    *Queue
	all  []*batch             // in the order of creation
	open map[shardKind]*batch // batches that have room, by shard and kind
	seen map[timer.Key]bool   // keys in the open batches
}

// shardKind identifies one kind in one shard.
type shardKind struct {
	shard int
	kind  timer.Kind
}

// newBatcher returns an empty batcher.
func (q *Queue) newBatcher() *batcher {
	return &batcher{q: q, open: map[shardKind]*batch{}, seen: map[timer.Key]bool{}}
}

// add adds an item to a batch; codes are the slices that the item may need. It returns false if an
// earlier item has the same key. The caller must then apply all batches and add the item to a new
// batcher.
func (b *batcher) add(k timer.Key, item string, codes []string) bool {
	if b.seen[k] {
		return false
	}
	b.seen[k] = true
	sh := b.q.shardOf(k)
	id := shardKind{sh.number, k.Kind}
	x := b.open[id]
	if x == nil || len(x.items) == maxItems {
		x = &batch{shard: sh, kind: k.Kind}
		b.open[id] = x
		b.all = append(b.all, x)
	}
	x.items = append(x.items, item)
	for _, code := range codes {
		x.slices = appendNew(x.slices, code)
	}
	return true
}

// appendNew appends code unless codes contains it.
func appendNew(codes []string, code string) []string {
	if slices.Contains(codes, code) {
		return codes
	}
	return append(codes, code)
}

// maxTries bounds how often a batch is repeated with more slices. Each reply names all missing
// slices, but another process may move the timers meanwhile.
const maxTries = 8

// apply runs script s on batches until every item is done, and changes batches to the items that
// are left. It returns the time until the first of the timers is reached, timer.Never if none is
// pending. It fails with Unavailable after maxTries, and with the error of a call; some items may
// then be done.
func (q *Queue) apply(ctx context.Context, s *script, batches []*batch) (time.Duration, error) {
	wait := timer.Never
	for range maxTries {
		calls := make([]*call, len(batches))
		for i, b := range batches {
			args := make([]any, len(b.items))
			for j, item := range b.items {
				args[j] = item
			}
			calls[i] = &call{script: s, shard: b.shard, keys: b.shard.keys(b.kind, b.slices), args: args}
		}
		err := q.run(ctx, calls...)
		var again []*batch
		for i, b := range batches {
			if calls[i].err != nil {
				continue
			}
			if next := calls[i].next(); next != never {
				b.shard.noteNext(b.kind, next)
				wait = min(wait, time.Duration(max(next-calls[i].now, 0))*time.Millisecond)
			}
			if b.keepUnfinished(&calls[i].reply) {
				again = append(again, b)
			}
		}
		if err != nil || len(again) == 0 {
			return wait, err
		}
		batches = again
	}
	return wait, drive.Fail(drive.Unavailable)
}

// keepUnfinished removes the finished items from b and adds the slices of the index that the others
// need, both as the reply says. It reports whether any items remain, which the caller must send
// again.
func (b *batch) keepUnfinished(r *reply) bool {
	for _, code := range r.texts(1) {
		b.slices = appendNew(b.slices, code)
	}
	var left []string
	for _, v := range r.list(2) {
		if i, ok := v.(int64); ok && i >= 0 && int(i) < len(b.items) {
			left = append(left, b.items[i])
		}
	}
	b.items = left
	return len(left) > 0
}

// Arm adds or updates timers, each on its own (timer.Queue). Invalid entries fail with BadRequest
// before any is armed; later errors may leave some armed.
func (q *Queue) Arm(ctx context.Context, entries []timer.Entry) error {
	for i := range entries {
		if err := entries[i].Check(); err != nil {
			return err
		}
		if g := entries[i].Gen; g > maxGen || g < -maxGen {
			return drive.BadField("gen", drive.OutOfRange, "min", -maxGen, "max", maxGen)
		}
	}
	now, b := q.opt.Now(), q.newBatcher()
	for i := range entries {
		x := &entries[i]
		item, codes := encodeEntry(x, now), q.armSlices(x, now)
		if b.add(x.Key, item, codes) {
			continue
		}
		if err := q.arm(ctx, b.all); err != nil {
			return err
		}
		b = q.newBatcher()
		b.add(x.Key, item, codes)
	}
	return q.arm(ctx, b.all)
}

// arm applies batches of encoded entries. On an error some entries may be armed; arming them again
// does no harm.
func (q *Queue) arm(ctx context.Context, batches []*batch) error {
	if _, err := q.apply(ctx, armScript, batches); err != nil {
		return fmt.Errorf("arm: %w", err)
	}
	return nil
}

// armSlices returns the two slices of the index in which Redis will probably place the entry,
// computed from the expected clock of its shard; the second covers a clock that is off by up to
// clockSlack.
func (q *Queue) armSlices(x *timer.Entry, now time.Time) []string {
	last := q.clockOf(q.shardOf(x.Key), now)
	first := last
	if x.Last != 0 {
		last -= max(now.UnixMilli()-int64(x.Last), 0)
		first = last
	}
	if x.First != 0 {
		first = min(first-now.UnixMilli()+int64(x.First), last)
	}
	at, span := last+ceilMs(x.Idle), x.Idle
	if x.Max > 0 {
		at, span = min(at, first+ceilMs(x.Max)), min(span, x.Max)
	}
	if span >= time.Hour {
		return []string{hourSlice(at), hourSlice(at + clockSlack)}
	}
	return []string{minuteSlice(at), minuteSlice(at + clockSlack)}
}

// clockOf returns the expected clock of a shard in ms, or the wall clock before the first reply.
func (q *Queue) clockOf(sh *shard, now time.Time) int64 {
	if _, clock := sh.epochAndClock(now); clock > 0 {
		return clock
	}
	return now.UnixMilli()
}

// Cancel removes a timer and voids its lease if its gen is at most gen (timer.Queue). A missing
// timer and an unknown kind are no errors. It fails with Unavailable if Redis does not answer or
// another process keeps moving the timer.
func (q *Queue) Cancel(ctx context.Context, key timer.Key, gen int64) error {
	if !key.Kind.Known() {
		return nil
	}
	gen = min(max(gen, -maxGen), maxGen)
	b := &batch{shard: q.shardOf(key), kind: key.Kind, items: []string{string(key.ID[:])}}
	for range maxTries {
		c := &call{script: cancelScript, shard: b.shard, keys: b.shard.keys(b.kind, b.slices), args: []any{string(key.ID[:]), gen}}
		if err := q.run(ctx, c); err != nil {
			return fmt.Errorf("cancel: %w", err)
		}
		if !b.keepUnfinished(&c.reply) {
			return nil
		}
	}
	return drive.Fail(drive.Unavailable)
}

// Settle ends leases (timer.Queue); outcomes with a stale token are ignored. It returns the time
// until the first of the remaining timers may be due, or timer.Never.
func (q *Queue) Settle(ctx context.Context, outcomes []timer.Outcome) (time.Duration, error) {
	now, b, wait := q.opt.Now(), q.newBatcher(), timer.Never
	flush := func() error {
		w, err := q.apply(ctx, settleScript, b.all)
		wait = min(wait, w)
		b = q.newBatcher()
		return err
	}
	for i := range outcomes {
		o := &outcomes[i]
		if !o.Key.Kind.Known() {
			continue
		}
		var codes []string
		if o.Verdict == timer.Snooze {
			at := q.clockOf(q.shardOf(o.Key), now) + ceilMs(min(max(o.In, 0), timer.MaxDelay))
			codes = []string{minuteSlice(at), minuteSlice(at + clockSlack), hourSlice(at)}
		}
		if !b.add(o.Key, encodeOutcome(o), codes) {
			if err := flush(); err != nil {
				return wait, fmt.Errorf("settle: %w", err)
			}
			b.add(o.Key, encodeOutcome(o), codes)
		}
	}
	if err := flush(); err != nil {
		return wait, fmt.Errorf("settle: %w", err)
	}
	return wait, nil
}
