package redis

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// Show returns the state of a timer: its slice and when it is due, or, if it is leased, the holder
// and when the lease ends (timer.Inspector). It fails with NotFound if the timer is not armed or
// its kind unknown.
func (q *Queue) Show(ctx context.Context, key timer.Key) (timer.State, error) {
	if !key.Kind.Known() {
		return timer.State{}, drive.Fail(drive.NotFound)
	}
	sh := q.shardOf(key)
	names := sh.kinds[key.Kind].names
	c := &call{script: showScript, shard: sh, keys: []string{sh.meta, names[0], names[2], names[3]}, args: []any{string(key.ID[:])}}
	if err := q.run(ctx, c); err != nil {
		return timer.State{}, fmt.Errorf("show timer %s: %w", key, err)
	}
	if c.text(0) == "" {
		return timer.State{}, drive.Fail(drive.NotFound)
	}
	st, err := parseState(c.text(0))
	if err != nil {
		return timer.State{}, fmt.Errorf("show timer %s: %w", key, err)
	}
	s := timer.State{
		Key: key, Gen: st.gen, Account: st.account, Idle: time.Duration(st.idle) * time.Millisecond, Max: time.Duration(st.max) * time.Millisecond,
		First: drive.Time(st.first), Last: drive.Time(st.last), Due: drive.Time(st.due()), Indexed: drive.Time(st.indexed),
		Shard: sh.name, PushBacks: st.pushed,
	}
	if st.pushed > 0 {
		s.LastPushBack = s.Last
	}
	if !st.leased {
		s.Slice = st.sliceName()
		return s, nil
	}
	f, holder, err := parseFired(c.text(2))
	if err != nil {
		return timer.State{}, fmt.Errorf("show timer %s: %w", key, err)
	}
	again := drive.Time(c.number(1))
	s.Leased, s.Due, s.Indexed, s.Attempt, s.Delivery, s.Holder = true, again, again, f.Attempt, f.Delivery, holder
	return s, nil
}

// Pending counts the timers of each kind by the time until they are due (timer.Inspector). It scans
// all timers on the servers, a thousand per call: a million take some seconds of server time.
// Timers that are added or removed during the scan may be counted or not.
func (q *Queue) Pending(ctx context.Context) (map[timer.Kind]timer.DueCounts, error) {
	shards, err := q.countShards(ctx, q.shards)
	if err != nil {
		return nil, err
	}
	all := make(sums, len(timer.Kinds()))
	for _, one := range shards {
		for kind, h := range one {
			all.add(kind, h)
		}
	}
	return all, nil
}

// countShards scans all timers of shards and returns the counts of each, in the order of shards. It
// takes many calls of bounded size; timers that change meanwhile may be missed or counted twice. On
// an error it returns no counts.
func (q *Queue) countShards(ctx context.Context, shards []*shard) ([]sums, error) {
	type walk struct {
		*call
		kind timer.Kind
		into sums
	}
	var walks []walk
	all := make([]sums, len(shards))
	for i, sh := range shards {
		all[i] = sums{}
		for _, k := range timer.Kinds() {
			c := &call{script: countScript, shard: sh, keys: []string{sh.meta, sh.kinds[k].names[0]}, args: []any{"0"}}
			walks = append(walks, walk{c, k, all[i]})
		}
	}
	for len(walks) > 0 {
		calls := make([]*call, len(walks))
		for i, w := range walks {
			calls[i] = w.call
		}
		if err := q.run(ctx, calls...); err != nil {
			return nil, fmt.Errorf("count timers: %w", err)
		}
		left := walks[:0]
		for _, w := range walks {
			w.into.add(w.kind, timer.DueCounts{Minute: w.number(1), Hour: w.number(2), Day: w.number(3), More: w.number(4), Leased: w.number(5)})
			if w.text(0) != "0" {
				w.args = []any{w.text(0)}
				left = append(left, w)
			}
		}
		walks = left
	}
	return all, nil
}
