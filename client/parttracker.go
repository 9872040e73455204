package client

import (
	"context"
	"sync"
)

// partTracker tracks the state of each part of a transfer. Senders acquire missing parts; the
// scanner resolves unverified ones. It is safe for concurrent use.
//
//	missing ──acquire──► sending ──markDone──► done
//	   ▲                   │ markMissing        ▲
//	   ├───────────────────┘                    │ resolve(same)
//	   └──── resolve(differs) ── unverified ────┘
type partTracker struct {
	mu           sync.Mutex
	cond         *sync.Cond
	parts        []partState
	differs      map[int64]bool // parts of which the server holds other bytes: delete before sending
	doneCount    int64
	firstMissing int64 // all parts before this one are not missing
}

// partState is the state of one part; partTracker shows the transitions.
type partState uint8

const (
	partMissing partState = iota
	partSending
	partUnverified // the server has it; not yet compared with the local file
	partDone
)

// newPartTracker returns a tracker of n parts. The parts in received are unverified, the others
// missing.
func newPartTracker(n int64, received []Span) *partTracker {
	b := &partTracker{parts: make([]partState, n), differs: make(map[int64]bool)}
	b.cond = sync.NewCond(&b.mu)
	for _, s := range received {
		for i := max(0, s[0]); i <= s[1] && i < n; i++ {
			b.parts[i] = partUnverified
		}
	}
	return b
}

// acquire waits for a missing part and marks it as sending. ok is false if all parts are done or
// ctx has ended. replaces reports that the server holds other bytes under that number, which must
// be deleted first.
func (t *partTracker) acquire(ctx context.Context) (n int64, replaces, ok bool) {
	stop := context.AfterFunc(ctx, t.wakeAll)
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for ctx.Err() == nil && t.doneCount < int64(len(t.parts)) {
		for ; t.firstMissing < int64(len(t.parts)); t.firstMissing++ {
			if t.parts[t.firstMissing] == partMissing {
				t.parts[t.firstMissing] = partSending
				return t.firstMissing, t.differs[t.firstMissing], true
			}
		}
		t.cond.Wait()
	}
	return 0, false, false
}

// markDone marks part n as transferred and equal on both sides.
func (t *partTracker) markDone(n int64) { t.set(n, partDone) }

// markMissing makes part n available to acquire again. It acquires mu and wakes a waiter.
func (t *partTracker) markMissing(n int64) { t.set(n, partMissing) }

// resolve marks an unverified part as done if it is the same on both sides, otherwise as missing
// and to be replaced.
func (t *partTracker) resolve(n int64, same bool) {
	if same {
		t.set(n, partDone)
		return
	}
	t.mu.Lock()
	t.differs[n] = true
	t.mu.Unlock()
	t.set(n, partMissing)
}

// set changes the state of part n and wakes all waiters. An n out of range is ignored.
func (t *partTracker) set(n int64, to partState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < 0 || n >= int64(len(t.parts)) {
		return
	}
	if t.parts[n] == partDone {
		t.doneCount--
	}
	switch t.parts[n] = to; to {
	case partDone:
		t.doneCount++
		delete(t.differs, n)
	case partMissing:
		t.firstMissing = min(t.firstMissing, n)
	default:
	}
	t.cond.Broadcast()
}

// waitDone waits until part n is done and returns true. If ctx ends it returns false, even if the
// part is done by then.
func (t *partTracker) waitDone(ctx context.Context, n int64) bool {
	stop := context.AfterFunc(ctx, t.wakeAll)
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for ctx.Err() == nil && t.parts[n] != partDone {
		t.cond.Wait()
	}
	return ctx.Err() == nil
}

// wakeAll makes all waiters check their condition again.
func (t *partTracker) wakeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cond.Broadcast()
}

// doneSpans returns the parts that are done as ranges of part numbers, first and last included, in
// order; empty if none is.
func (t *partTracker) doneSpans() []Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	spans := []Span{}
	for i, at := range t.parts {
		n := int64(i)
		switch last := len(spans) - 1; {
		case at != partDone:
		case last >= 0 && spans[last][1] == n-1:
			spans[last][1] = n
		default:
			spans = append(spans, Span{n, n})
		}
	}
	return spans
}

// isUnverified reports whether part n was received in an earlier run and not checked since. It
// acquires mu.
func (t *partTracker) isUnverified(n int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.parts[n] == partUnverified
}

// unsent returns the number of parts that the server does not have: missing ones and those being
// sent. Unverified parts do not count.
func (t *partTracker) unsent() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var n int64
	for _, at := range t.parts {
		if at == partMissing || at == partSending {
			n++
		}
	}
	return n
}
