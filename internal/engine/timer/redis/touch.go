package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/engine/timer"
)

// Counters counts the work of a queue since its start. All fields only grow.
type Counters struct {
	Touches     atomic.Int64 // calls of Touch
	Coalesced   atomic.Int64 // touches coalesced with another touch of the same key in the window
	Dropped     atomic.Int64 // touches discarded because too many waited for an unreachable server
	Flushes     atomic.Int64 // windows sent
	Republished atomic.Int64 // deliveries after the first: expired leases and retries
	Losses      atomic.Int64 // shards found empty, or on a restarted or replaced server
	Steps       atomic.Int64 // clocks found off by more than a minute
}

// Counters returns the counters of the queue.
func (q *Queue) Counters() *Counters { return &q.count }

// maxTouched bounds the touches per shard that wait for an unreachable server; in 64 shards about
// 200 MB.
const maxTouched = 16384

// touches coordinates the flushes; the touched keys are in the shards.
type touches struct {
	wake    chan struct{} // a key was touched since the last flush began
	sending sync.Mutex    // allows one flush at a time; later touches form the next one
}

// Touch records activity of the watched object (timer.Queue). It stores the key; Run sends it at
// the end of the window. It never blocks on the network and reports no error.
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

// Flush sends all stored touches. Touches that fail are stored again for the next flush, which then
// counts them as later activity.
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

// touchCall returns the TOUCH call for keys of one shard and kind.
func touchCall(sh *shard, kind timer.Kind, keys []timer.Key) *call {
	args := make([]any, len(keys))
	for i := range keys {
		args[i] = string(keys[i].ID[:])
	}
	return &call{script: touchScript, shard: sh, keys: []string{sh.meta, sh.kinds[kind].names[0]}, args: args}
}

// takeTouched removes and returns the keys touched since the last call, by kind; nil if there are
// none.
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

// putBack stores keys as touched again, because their TOUCH call failed; the next flush sends them.
func (sh *shard) putBack(keys []timer.Key) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, k := range keys {
		sh.touched[k] = struct{}{}
	}
}

// sendTouches sends the collected touches to Redis, at most once per window, until ctx is done, and
// then once more within lastFlush. After an error it keeps them and tries again.
func (q *Queue) sendTouches(ctx context.Context) {
	window := time.NewTimer(q.opt.Window)
	defer window.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
			defer cancel()
			_ = q.Flush(last) // an error loses activity of the last window only; the handler checks the database
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
	lastFlush    = 2 * time.Second        // limit of the flush at the end
	retouchPause = 500 * time.Millisecond // pause after a failed flush
)

// retouch pauses, then schedules a flush of the touches that were stored again.
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
