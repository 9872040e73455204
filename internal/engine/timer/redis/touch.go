package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"smartdrive/internal/engine/timer"
)

// Counters is what a queue has done since it began. All fields only grow.
type Counters struct {
	Touches     atomic.Int64 // Touch was called
	Coalesced   atomic.Int64 // touches that another one of the same window stood for
	Dropped     atomic.Int64 // touches that were given up: the server was away for long
	Flushes     atomic.Int64 // windows that were sent
	Republished atomic.Int64 // timers that were leased again: a lease ran out, or a retry
	Losses      atomic.Int64 // shards found empty, or on another server
	Steps       atomic.Int64 // clocks found off by more than a minute
}

// Counters returns the counters of the queue.
func (q *Queue) Counters() *Counters { return &q.count }

// maxTouched bounds the touches that wait in a shard for a server that does not answer; 64 shards
// of them are some 200 MB.
const maxTouched = 16384

// touches gathers what was touched, in the shards, and knows whether there is anything.
type touches struct {
	wake    chan struct{} // something was touched since the last flush began
	sending sync.Mutex    // one flush at a time; then what comes meanwhile makes the next one
}

// Touch implements timer.Queue. It stores the key; Run sends it.
func (q *Queue) Touch(key timer.Key) {
	if !key.Kind.Known() {
		return
	}
	q.count.Touches.Add(1)
	sh := q.shardOf(key)
	sh.mu.Lock()
	before := len(sh.touched)
	if before < maxTouched {
		sh.touched[key] = struct{}{}
	}
	after := len(sh.touched)
	sh.mu.Unlock()
	switch {
	case after > before && before == 0:
		select {
		case q.touches.wake <- struct{}{}:
		default:
		}
	case after == before && before == maxTouched:
		q.count.Dropped.Add(1)
	case after == before:
		q.count.Coalesced.Add(1)
	}
}

// Flush sends what was touched until now. What cannot be sent is kept for the next time: the touch
// is then later, never lost.
func (q *Queue) Flush(ctx context.Context) error {
	q.touches.sending.Lock()
	defer q.touches.sending.Unlock()
	var calls []*call
	var sent [][]timer.Key
	for _, sh := range q.shards {
		for kind, keys := range sh.takeTouched() {
			for len(keys) > 0 {
				n := min(len(keys), maxItems)
				calls = append(calls, touchCall(sh, kind, keys[:n]))
				sent, keys = append(sent, keys[:n]), keys[n:]
			}
		}
	}
	if len(calls) == 0 {
		return nil
	}
	q.count.Flushes.Add(1)
	err := q.run(ctx, calls...)
	for i, c := range calls {
		if c.err != nil {
			c.shard.putBack(sent[i])
		}
	}
	if err != nil {
		return fmt.Errorf("touch: %w", err)
	}
	return nil
}

func touchCall(sh *shard, kind timer.Kind, keys []timer.Key) *call {
	args := make([]any, len(keys))
	for i := range keys {
		args[i] = string(keys[i].ID[:])
	}
	return &call{script: touchScript, shard: sh, keys: []string{sh.meta, sh.lanes[kind].names[0]}, args: args}
}

func (sh *shard) takeTouched() map[timer.Kind][]timer.Key {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.touched) == 0 {
		return nil
	}
	kinds := map[timer.Kind][]timer.Key{}
	for k := range sh.touched {
		kinds[k.Kind] = append(kinds[k.Kind], k)
	}
	clear(sh.touched)
	return kinds
}

func (sh *shard) putBack(keys []timer.Key) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, k := range keys {
		sh.touched[k] = struct{}{}
	}
}

// sendTouches sends windows until ctx is done, then what is left.
func (q *Queue) sendTouches(ctx context.Context) {
	window := time.NewTimer(q.opt.Window)
	defer window.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
			defer cancel()
			_ = q.Flush(last) // what is lost with it is activity of the last window: the handler asks the truth
			return
		case <-q.touches.wake:
		}
		window.Reset(q.opt.Window)
		select {
		case <-ctx.Done():
			continue
		case <-window.C:
		}
		if q.Flush(ctx) != nil {
			q.retouch(ctx, window)
		}
	}
}

const (
	lastFlush    = 2 * time.Second
	retouchPause = 500 * time.Millisecond
)

// retouch sees to it that what was put back is sent although nothing is touched.
func (q *Queue) retouch(ctx context.Context, pause *time.Timer) {
	pause.Reset(retouchPause)
	select {
	case <-ctx.Done():
		return
	case <-pause.C:
	}
	select {
	case q.touches.wake <- struct{}{}:
	default:
	}
}
