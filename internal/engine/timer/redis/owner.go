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

	"smartdrive/internal/base/drive"
)

const (
	// alive is how long an instance counts among the owners after it was heard of; it is heard
	// three times as often.
	alive     = 6 * time.Second
	announces = alive / 3
	// patience is after how many MaxWaits a shard of another instance is looked at: for timers that
	// its owner does not deliver.
	patience = 5
)

// owners shares out the shards among the instances that lease, by rendezvous hashing: each shard
// goes to the instance whose hash with it is the greatest, so that one that comes or goes moves
// only its own. While nothing is known of others, this instance owns them all.
type owners struct {
	leases atomic.Bool   // this instance leases, so it is one of them
	joins  chan struct{} // it has begun to
	mu     sync.RWMutex
	mine   []bool // nil = all
	names  []string
	layout error // the queue in Redis is not ours to work with
}

func (o *owners) owns(shard int) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.mine == nil || o.mine[shard]
}

// trust is how long a shard may go without being asked.
func (o *owners) trust(shard int, own time.Duration) time.Duration {
	if o.owns(shard) {
		return own
	}
	return patience * own
}

func (o *owners) refuses() error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.layout
}

// begin makes this instance one of the owners.
func (o *owners) begin() {
	if !o.leases.Swap(true) {
		close(o.joins)
	}
}

// share takes in who is alive.
func (o *owners) share(self string, names []string, shards int) {
	mine := make([]bool, shards)
	for n := range mine {
		mine[n] = owner(names, n) == self
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mine, o.names = mine, names
}

func (o *owners) unknown() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mine, o.names = nil, nil
}

func owner(names []string, shard int) string {
	best, most := "", uint64(0)
	for _, name := range names {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name + "/" + strconv.Itoa(shard)))
		v := h.Sum64()
		v = (v ^ v>>31) * 0x9e3779b97f4a7c15 // FNV alone spreads short suffixes badly
		if v ^= v >> 29; best == "" || v > most || v == most && name < best {
			best, most = name, v
		}
	}
	return best
}

// Run sends touches and keeps this instance among the owners, until ctx is done. It returns an
// error only if the timers in Redis are laid out in a way that this process cannot work with.
func (q *Queue) Run(ctx context.Context) error {
	var sender sync.WaitGroup
	defer sender.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sender.Go(func() { q.sendTouches(ctx) })
	tick, joins := time.NewTicker(announces), q.owners.joins
	defer tick.Stop()
	for {
		if err := q.announce(ctx, alive); drive.IsKind(err, drive.BadRequest) {
			return err
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
			defer cancel()
			_ = q.announce(last, 0) // or it is forgotten a little later
			return nil
		case <-joins:
			joins = nil
		case <-tick.C:
		}
	}
}

// announce says that this instance lives for so long, and learns who else does.
func (q *Queue) announce(ctx context.Context, long time.Duration) error {
	if !q.owners.leases.Load() {
		long = 0
	}
	prefix := "{" + q.opt.Namespace + ":timers}:"
	layout := fmt.Sprintf("format=%d shards=%d", format, len(q.shards))
	args := []any{q.opt.Instance, long.Milliseconds(), layout}
	list, err := announceScript.alone(ctx, q.client, []string{prefix + "live", prefix + "layout"}, args)
	if err != nil || len(list) == 0 {
		q.owners.unknown()
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
		q.owners.share(q.opt.Instance, list[1:], len(q.shards))
	}
	return nil
}

// alone runs a script that belongs to no shard.
func (s *script) alone(ctx context.Context, c redis.UniversalClient, keys []string, args []any) ([]string, error) {
	v, err := c.EvalSha(ctx, s.sha, keys, args...).StringSlice()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		v, err = c.Eval(ctx, s.text, keys, args...).StringSlice()
	}
	if err != nil {
		return nil, fmt.Errorf("redis script %s: %w", s.name, classify(err))
	}
	return v, nil
}

// Owners returns the instances that share the shards, and how many of them are this one's; nil
// while that is not known.
func (q *Queue) Owners() (names []string, own int) {
	q.owners.mu.RLock()
	defer q.owners.mu.RUnlock()
	for _, mine := range q.owners.mine {
		if mine {
			own++
		}
	}
	return append([]string(nil), q.owners.names...), own
}

// steps reports clocks that jumped: all shards of a server find it, one after the other.
type steps struct {
	mu   sync.Mutex
	last time.Time
	by   time.Duration
}

// sameStep is how long after a report another one of about the same size is taken for the same
// jump.
const sameStep = time.Minute

func (s *steps) report(by time.Duration, now time.Time, stepped func(time.Duration)) {
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
