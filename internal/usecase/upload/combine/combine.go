// Package combine lets those who would wait for one another have their work done together.
//
// The naive way: each job takes a lock, works, and gives it back; of n who come at once the last
// one waits n times as long. Here the first one to come works at once, alone. Those who come while
// it works wait in the order in which they came; when it has ended, the first of them does the work
// of all that wait. So the size of a group follows the load by itself, and one who comes alone
// waits for nobody.
//
//	a comes: works [a]
//	b, c, d come and wait            a has ended: b works [b c d]
//	                                 e comes and waits           b, c, d return; e works [e]
//
// Who returns often comes again at once, a moment too late for the group that has begun: without
// more, two halves would take turns in groups of half the size. So the one who is to work waits, as
// long as the group before it took at most, until as many ask as asked when that had ended, in it
// and behind it. Who was alone then waits for nobody.
//
// The work is done by the goroutines of those who ask for it: nothing runs when nobody asks, there
// is nothing to stop, and nobody does more than one group.
//
// It is not a lock on what is worked on: another process, or another Queue, may do the same.
package combine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Queue does jobs of the type J, together those with the same key. It is safe for concurrent use.
type Queue[K comparable, J any] struct {
	most     int
	patience time.Duration
	work     func(ctx context.Context, key K, jobs []J)

	mu     sync.Mutex
	lines  map[K]*line[J] // of the keys for which somebody works, or has done so a moment ago
	rested []rest[K]      // when nobody did any more, the oldest first
}

type rest[K comparable] struct {
	key K
	at  time.Time
}

// line is what waits for one key, in the order of its coming.
type line[J any] struct {
	waiting  []*place[J]
	rests    time.Time     // since when nobody works; zero: somebody does
	expected int           // calls of Do that are likely to ask at the same time
	patience time.Duration // how long they are waited for
	enough   chan struct{} // closed when as many do; nil: nobody waits for it
}

type place[J any] struct {
	job  J
	last bool      // of its call of Do
	turn chan bool // true: do the work of the line; false: the job was done by another
}

// New returns a Queue whose groups have at most most jobs, and which waits for at most patience
// before it begins one. work does the jobs of a group, which are in the order in which they came,
// and writes into each what came of it. It must not call Do for the same key. The context is that
// of the one whose goroutine it runs in, and is not cancelled.
func New[K comparable, J any](most int, patience time.Duration, work func(ctx context.Context, key K, jobs []J)) *Queue[K, J] {
	return &Queue[K, J]{most: most, patience: patience, work: work, lines: map[K]*line[J]{}}
}

// Do returns when the jobs have been done, each in a group with whatever else waits. They come one
// after the other, with nothing between them. A work that panics does so in one of those who have
// asked for it; the others return, with what it has written into their jobs.
func (q *Queue[K, J]) Do(ctx context.Context, key K, jobs ...J) {
	ctx = context.WithoutCancel(ctx)
	var broken error
	for _, p := range q.enter(key, jobs) {
		if <-p.turn {
			broken = errors.Join(broken, q.lead(ctx, key, p))
		}
	}
	if broken != nil { // only now: others may have waited for the turns of the places behind
		panic(broken)
	}
}

// enter puts jobs at the end of the line of their key; if nobody works for it, the first of them is
// to do so.
func (q *Queue[K, J]) enter(key K, jobs []J) []*place[J] {
	places := make([]*place[J], len(jobs))
	for i, job := range jobs {
		places[i] = &place[J]{job, i == len(jobs)-1, make(chan bool, 1)}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	idle := l == nil || !l.rests.IsZero()
	if l == nil || idle && time.Since(l.rests) >= l.patience {
		l = &line[J]{}
		q.lines[key] = l
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

// lead does the work of those who wait, of whom p is the first, and names who does it next. Its
// error is a panic of the work.
func (q *Queue[K, J]) lead(ctx context.Context, key K, p *place[J]) (broken error) {
	group := q.take(key)
	begun := time.Now()
	defer func() {
		if r := recover(); r != nil {
			broken = fmt.Errorf("panic in the work of a group: %v\n%s", r, debug.Stack())
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		l := q.lines[key]
		l.expected, l.patience = ends(group)+ends(l.waiting), min(q.patience, time.Since(begun))
		for _, other := range group { // counted before they can come again
			if other != p {
				other.turn <- false
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

// take waits for those who are likely to come, and takes the group that is to be worked on.
func (q *Queue[K, J]) take(key K) []*place[J] {
	q.mu.Lock()
	l := q.lines[key]
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

func (q *Queue[K, J]) isEnough(l *line[J]) bool {
	return len(l.waiting) >= q.most || ends(l.waiting) >= l.expected
}

// ends is how many calls of Do have their last job among these.
func ends[J any](places []*place[J]) (n int) {
	for _, p := range places {
		if p.last {
			n++
		}
	}
	return n
}

// nextLocked gives the turn to the first who waits; the line of a key for which nobody waits rests.
func (q *Queue[K, J]) nextLocked(key K, l *line[J]) {
	if len(l.waiting) == 0 {
		l.waiting = nil // or what it was would be held
		l.rests = time.Now()
		q.rested = append(q.rested, rest[K]{key, l.rests})
		q.forgetLocked(l.rests)
		return
	}
	l.rests = time.Time{}
	l.waiting[0].turn <- true
}

// forgetLocked lets the lines go that have rested for longer than anybody is waited for.
func (q *Queue[K, J]) forgetLocked(now time.Time) {
	n := 0
	for _, r := range q.rested {
		if now.Sub(r.at) < q.patience {
			break
		}
		if l := q.lines[r.key]; l != nil && l.rests.Equal(r.at) { // else it has been used since
			delete(q.lines, r.key)
		}
		n++
	}
	q.rested = q.rested[n:]
}
