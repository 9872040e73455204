package redis

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
)

const (
	// aliveFor is the time for which an instance counts as an owner after its announcement.
	aliveFor      = 6 * time.Second
	announceEvery = aliveFor / 3 // interval at which an instance announces itself
	// foreignFactor is the number of MaxWaits after which the shard of another instance is
	// polled, in case its owner does not deliver.
	foreignFactor = 5
)

// owners divides the shards among the leasing instances by rendezvous hashing: a shard belongs to
// the instance with the greatest hash over name and shard. An instance that starts or stops so
// moves only its own shards. While the other instances are unknown, this instance owns all shards.
type owners struct {
	leases atomic.Bool   // this instance leases, so it is an owner
	joins  chan struct{} // closed when leases becomes true
	mu     sync.RWMutex
	owned  []bool   // by shard number; nil = all
	names  []string // live instances
	layout error    // the queue in Redis has a layout that this process cannot use
}

// owns reports whether this instance owns the shard; true for every shard while the live instances
// are unknown.
func (o *owners) owns(shard int) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.owned == nil || o.owned[shard]
}

// pollAfter returns the time after which a shard is polled without a known due timer: own for an
// owned shard, a multiple for others.
func (o *owners) pollAfter(shard int, own time.Duration) time.Duration {
	if o.owns(shard) {
		return own
	}
	return foreignFactor * own
}

// layoutError returns the error that makes the shards in Redis unusable for this instance, such as
// another number of shards; nil if there is none.
func (o *owners) layoutError() error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.layout
}

// join makes this instance own a share of the shards, because it leases timers from now on. Further
// calls do nothing.
func (o *owners) join() {
	if !o.leases.Swap(true) {
		close(o.joins)
	}
}

// assign sets the shards that the instance self owns, of shards in total, computed from the names
// of the live instances.
func (o *owners) assign(self string, names []string, shards int) {
	owned := make([]bool, shards)
	for n := range owned {
		owned[n] = owner(names, n) == self
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owned, o.names = owned, names
}

// reset makes this instance own all shards, because the live instances are unknown.
func (o *owners) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owned, o.names = nil, nil
}

// owner returns the name of the instance that owns the shard, by rendezvous hashing of names; "" if
// names is empty. Every instance computes the same one from the same names.
func owner(names []string, shard int) string {
	best, most := "", uint64(0)
	for _, name := range names {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name + "/" + strconv.Itoa(shard)))
		v := h.Sum64()
		v = (v ^ v>>31) * 0x9e3779b97f4a7c15 // FNV alone distributes short suffixes badly
		if v ^= v >> 29; best == "" || v > most || v == most && name < best {
			best, most = name, v
		}
	}
	return best
}

// Run sends touches and announces this instance to the others that own shards, until ctx is done;
// then it withdraws the announcement and returns nil. While Redis is unreachable, it retries. It
// fails with BadRequest if the timers in Redis have a layout that this process cannot use.
func (q *Queue) Run(ctx context.Context) error {
	var sender sync.WaitGroup
	defer sender.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sender.Go(func() { q.sendTouches(ctx) })
	tick, joins := time.NewTicker(announceEvery), q.owners.joins
	defer tick.Stop()
	for {
		if err := q.announce(ctx, aliveFor); drive.IsKind(err, drive.BadRequest) {
			return err
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
			defer cancel()
			_ = q.announce(last, 0) // on failure the announcement expires soon
			return nil
		case <-joins:
			joins = nil
		case <-tick.C:
		}
	}
}

// announce announces this instance for the duration long and computes the owners of all shards from
// the live instances. With long 0, or before the first lease, it only checks the layout. A wrong
// layout fails with BadRequest and makes every later Lease fail. After any other error this
// instance counts as owner of all shards.
func (q *Queue) announce(ctx context.Context, long time.Duration) error {
	if !q.owners.leases.Load() {
		long = 0
	}
	prefix := "{" + q.opt.Namespace + ":timers}:"
	layout := fmt.Sprintf("format=%d shards=%d", format, len(q.shards))
	args := []any{q.opt.Instance, long.Milliseconds(), layout}
	list, err := announceScript.runGlobal(ctx, q.client, []string{prefix + "live", prefix + "layout"}, args)
	if err != nil || len(list) == 0 {
		q.owners.reset()
		return err
	}
	if list[0] != layout {
		err := drive.Wrap(fmt.Errorf("the timers under %q in Redis are of %s, this process works with %s", q.opt.Namespace, list[0], layout), drive.BadRequest)
		q.owners.mu.Lock()
		q.owners.layout = err
		q.owners.mu.Unlock()
		return err
	}
	if long > 0 {
		q.owners.assign(q.opt.Instance, list[1:], len(q.shards))
	}
	return nil
}

// runGlobal runs a script that uses no shard and returns its list of strings. If Redis does not
// know the script, it sends the text. Errors are classified.
func (s *script) runGlobal(ctx context.Context, c redis.UniversalClient, keys []string, args []any) ([]string, error) {
	v, err := c.EvalSha(ctx, s.sha, keys, args...).StringSlice()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		v, err = c.Eval(ctx, s.text, keys, args...).StringSlice()
	}
	if err != nil {
		return nil, fmt.Errorf("redis script %s: %w", s.name, classify(err))
	}
	return v, nil
}

// Owners returns the instances that share the shards, and how many shards this instance owns; nil
// and 0 while unknown.
func (q *Queue) Owners() (names []string, own int) {
	q.owners.mu.RLock()
	defer q.owners.mu.RUnlock()
	for _, owned := range q.owners.owned {
		if owned {
			own++
		}
	}
	return append([]string(nil), q.owners.names...), own
}

// stepDedup deduplicates reports of clock steps: every shard of a server finds the same step.
type stepDedup struct {
	mu   sync.Mutex
	last time.Time
	by   time.Duration
}

// sameStep bounds the time between two reports, and the difference of their sizes, for which they
// count as one step.
const sameStep = time.Minute

// report calls stepped unless the step was reported before. stepped may be nil.
func (s *stepDedup) report(by time.Duration, now time.Time, stepped func(time.Duration)) {
	s.mu.Lock()
	known := now.Sub(s.last) < sameStep && (by-s.by).Abs() < sameStep
	if !known {
		s.last, s.by = now, by
	}
	s.mu.Unlock()
	if !known && stepped != nil {
		stepped(by)
	}
}
