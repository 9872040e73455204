// Package combine implements group commit: jobs that would wait for one another are done together.
//
// With a lock, the last of n concurrent jobs waits n times as long as one job. Here the first
// caller works at once, alone. Callers that arrive meanwhile queue up in order of arrival; when it
// has finished, the first of them does the work of all that wait. So group size follows the load,
// and a single caller never waits.
//
//	a arrives: works [a]
//	b, c, d arrive and wait          a has finished: b works [b c d]
//	                                 e arrives and waits         b, c, d return; e works [e]
//
// A caller that returns often calls again at once, just too late for the group that has begun. Two
// halves would then alternate in groups of half the size. So the next leader first waits until as
// many calls wait as were in and behind the previous group, at most as long as that group took.
// After a group of one there is no wait.
//
// The work runs in the goroutines of the callers: nothing runs without callers, nothing needs to be
// stopped, and no caller leads more than one group per job.
//
// A Queue is no lock on the key: another process or another Queue may work on the same key.
package combine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Queue groups jobs of type J by key. It is safe for concurrent use.
type Queue[K comparable, J any] struct {
	most     int
	patience time.Duration
	work     func(ctx context.Context, key K, jobs []J)

	mu     sync.Mutex
	queues map[K]*keyQueue[J] // queues of the keys with a running group or a recent one
	idle   []idleEntry[K]     // idle queues, longest idle first
}

// idleEntry records when a key's queue became idle.
type idleEntry[K comparable] struct {
	key K
	at  time.Time
}

// keyQueue holds the waiting jobs of one key in order of arrival.
type keyQueue[J any] struct {
	waiting   []*ticket[J]  // in order of arrival
	idleSince time.Time     // when the last group ended; zero: a group is running
	expected  int           // number of Do calls likely to wait for the next group
	patience  time.Duration // longest wait for them
	enough    chan struct{} // closed when enough calls wait; nil: no leader waits for that
}

// ticket is a waiting job. Its Do call receives from lead exactly once.
type ticket[J any] struct {
	job  J
	last bool      // the last job of its Do call
	lead chan bool // true: lead a group; false: another caller has done the job
}

// New returns a Queue whose groups have at most most jobs. Before a group begins, its leader waits
// at most patience for further calls. work does the jobs of a group, in order of arrival, and
// writes each result into its job. It must not call Do for the same key. Its context is that of the
// leading caller, without cancellation.
func New[K comparable, J any](most int, patience time.Duration, work func(ctx context.Context, key K, jobs []J)) *Queue[K, J] {
	return &Queue[K, J]{most: most, patience: patience, work: work, queues: map[K]*keyQueue[J]{}}
}

// Do blocks until the jobs are done, each in a group with other waiting jobs. The jobs stay
// adjacent and in order. If work panics, Do panics in the leading caller only; the others return
// with what work has written into their jobs.
func (q *Queue[K, J]) Do(ctx context.Context, key K, jobs ...J) {
	ctx = context.WithoutCancel(ctx)
	var broken error
	for _, p := range q.enqueue(key, jobs) {
		if <-p.lead {
			broken = errors.Join(broken, q.lead(ctx, key, p))
		}
	}
	if broken != nil { // only now: other callers may depend on the later tickets leading
		panic(broken)
	}
}

// enqueue appends jobs to the queue of their key. If no group is running, it lets the first job's
// caller lead.
func (q *Queue[K, J]) enqueue(key K, jobs []J) []*ticket[J] {
	places := make([]*ticket[J], len(jobs))
	for i, job := range jobs {
		places[i] = &ticket[J]{job, i == len(jobs)-1, make(chan bool, 1)}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.queues[key]
	idle := l == nil || !l.idleSince.IsZero()
	if l == nil || idle && time.Since(l.idleSince) >= l.patience {
		l = &keyQueue[J]{}
		q.queues[key] = l
	}
	l.waiting = append(l.waiting, places...)
	if idle {
		q.nextLocked(key, l)
	}
	if l.enough != nil && q.isEnough(l) {
		close(l.enough)
		l.enough = nil
	}
	return places
}

// lead runs the group that begins with p and appoints the next leader. It returns an error if work
// panicked.
func (q *Queue[K, J]) lead(ctx context.Context, key K, p *ticket[J]) (broken error) {
	group := q.take(key)
	begun := time.Now()
	defer func() {
		if r := recover(); r != nil {
			broken = fmt.Errorf("panic in the work of a group: %v\n%s", r, debug.Stack())
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		l := q.queues[key]
		l.expected, l.patience = calls(group)+calls(l.waiting), min(q.patience, time.Since(begun))
		for _, other := range group { // counted above, before they can call again
			if other != p {
				other.lead <- false
			}
		}
		q.nextLocked(key, l)
	}()
	jobs := make([]J, len(group))
	for i := range group {
		jobs[i] = group[i].job
	}
	q.work(ctx, key, jobs)
	return nil
}

// take waits, for the patience of key at most, until isEnough, and then removes up to q.most jobs
// from the queue of key and returns them. Only the leader of the key calls it.
func (q *Queue[K, J]) take(key K) []*ticket[J] {
	q.mu.Lock()
	l := q.queues[key]
	if !q.isEnough(l) {
		enough := make(chan struct{})
		l.enough = enough
		patience := l.patience
		q.mu.Unlock()
		select {
		case <-enough:
		case <-time.After(patience):
		}
		q.mu.Lock()
		l.enough = nil
	}
	defer q.mu.Unlock()
	n := min(q.most, len(l.waiting))
	group := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return group
}

// isEnough reports whether the next group should run now: the group is full, or as many calls wait
// as are expected. The caller holds the mutex of q.
func (q *Queue[K, J]) isEnough(l *keyQueue[J]) bool {
	return len(l.waiting) >= q.most || calls(l.waiting) >= l.expected
}

// calls returns how many Do calls have their last job among the tickets.
func calls[J any](places []*ticket[J]) (n int) {
	for _, p := range places {
		if p.last {
			n++
		}
	}
	return n
}

// nextLocked appoints the first waiting ticket as leader; without one, the queue becomes idle.
func (q *Queue[K, J]) nextLocked(key K, l *keyQueue[J]) {
	if len(l.waiting) == 0 {
		l.waiting = nil // releases the old array
		l.idleSince = time.Now()
		q.idle = append(q.idle, idleEntry[K]{key, l.idleSince})
		q.evictLocked(l.idleSince)
		return
	}
	l.idleSince = time.Time{}
	l.waiting[0].lead <- true
}

// evictLocked removes the queues of keys that have been idle for at least patience at the time now.
// The caller holds q.mu.
func (q *Queue[K, J]) evictLocked(now time.Time) {
	n := 0
	for _, r := range q.idle {
		if now.Sub(r.at) < q.patience {
			break
		}
		if l := q.queues[r.key]; l != nil && l.idleSince.Equal(r.at) { // otherwise it was used again
			delete(q.queues, r.key)
		}
		n++
	}
	q.idle = q.idle[n:]
}
