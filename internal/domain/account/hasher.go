package account

import (
	"container/list"
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"example.org/smartdrive/internal/base/drive"
)

// Hash is a stored password: an Argon2id PHC string. Only Users.Hash creates one.
type Hash string

// Bounds of hasher.
const (
	maxConcurrentHashes = 2       // hashes at a time: two cores and 38 MiB
	maxKnownWaiting     = 64      // waiting known clients, about a second of work; further ones are refused with Rate
	maxUnknownWaiting   = 1 << 10 // waiting unknown clients: 16 s of work, less than a MiB
	maxPerSource        = 4       // of these per address, so that one address cannot fill a queue
	unknownEvery        = 4       // while both queues are filled, every fourth turn serves the unknown clients
)

// requester identifies the client that a password is hashed for.
type requester struct {
	source string // address; empty: a local socket, or a client that has authenticated before
	known  bool   // has priority over unknown clients
}

// hasher hashes passwords, maxConcurrentHashes at a time. Waiting clients form two FIFO queues:
//
//	known    clients with an earlier login from the same address, and changes of passwords
//	unknown  all others; an attack from a thousand addresses delays only this queue
type hasher struct {
	cost  Cost
	dummy phc          // checked for unknown users, so that they cost the same work
	count atomic.Int64 // hashes computed since the start

	mu       sync.Mutex
	running  int // hashes being computed
	releases int // counts releases, to select the queue to serve
	known    waitQueue
	unknown  waitQueue
}

// waitQueue is a bounded FIFO queue of waiters.
type waitQueue struct {
	limit     int            // maximum number of waiters
	waiting   *list.List     // of *waiter
	perSource map[string]int // number of waiters by source
}

// waiter is a client that waits for its turn to hash.
type waiter struct {
	requester

	queue   *waitQueue
	element *list.Element // nil: not queued
	granted chan struct{} // closed when the waiter gets its turn
}

// newWaitQueue returns an empty queue for up to most waiters.
func newWaitQueue(most int) waitQueue {
	return waitQueue{limit: most, waiting: list.New(), perSource: map[string]int{}}
}

// pushLocked appends w; false: the queue is full, or w's source has maxPerSource waiters. The
// caller holds hasher.mu.
func (q *waitQueue) pushLocked(w *waiter) bool {
	if q.waiting.Len() >= q.limit || w.source != "" && q.perSource[w.source] >= maxPerSource {
		return false
	}
	w.queue, w.element = q, q.waiting.PushBack(w)
	q.perSource[w.source]++
	return true
}

// removeLocked removes w. The caller holds hasher.mu.
func (q *waitQueue) removeLocked(w *waiter) {
	q.waiting.Remove(w.element)
	if q.perSource[w.source]--; q.perSource[w.source] == 0 {
		delete(q.perSource, w.source)
	}
	w.element = nil
}

// newHasher returns a hasher with the given cost; zero: DefaultCost.
func newHasher(cost Cost) *hasher {
	if cost == (Cost{}) {
		cost = DefaultCost
	}
	return &hasher{
		cost: cost, known: newWaitQueue(maxKnownWaiting), unknown: newWaitQueue(maxUnknownWaiting),
		dummy: phc{cost: cost, salt: random(newSalt), sum: random(newSum)},
	}
}

// random returns n random bytes.
func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return b
}

// acquire waits for a turn to hash. The caller must call leave afterwards. It fails with Rate if
// the queue is full and with Unavailable if ctx ends.
func (h *hasher) acquire(ctx context.Context, v requester) (leave func(), err error) {
	w := &waiter{requester: v, granted: make(chan struct{})}
	if !h.enqueue(w) {
		return nil, drive.Fail(drive.Rate, "retry_after", 1)
	}
	select {
	case <-w.granted:
		return h.release, nil
	case <-ctx.Done():
		h.cancel(w)
		return nil, drive.Wrap(ctx.Err(), drive.Unavailable)
	}
}

// enqueue grants w a turn at once, by closing w.granted, if one is free, else queues it. It returns
// false if the queue, one for known and one for unknown clients, is full; w then waits for nothing.
func (h *hasher) enqueue(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running < maxConcurrentHashes {
		h.running++
		close(w.granted)
		return true
	}
	if w.known {
		return h.known.pushLocked(w)
	}
	return h.unknown.pushLocked(w)
}

// release ends a turn and grants it to the next waiter: known clients first, but every
// unknownEvery-th time an unknown one. Each granted turn must be released once.
func (h *hasher) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	first, second := &h.known, &h.unknown
	if h.releases++; h.releases%unknownEvery == 0 {
		first, second = second, first
	}
	for _, l := range []*waitQueue{first, second} {
		if next := l.waiting.Front(); next != nil {
			w := next.Value.(*waiter)
			l.removeLocked(w)
			close(w.granted)
			return
		}
	}
	h.running--
}

// cancel removes a waiter whose context ended.
func (h *hasher) cancel(w *waiter) {
	h.mu.Lock()
	waits := w.element != nil
	if waits {
		w.queue.removeLocked(w)
	}
	h.mu.Unlock()
	if !waits { // the turn was granted concurrently
		h.release()
	}
}

// queued returns the number of waiters.
func (h *hasher) queued() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known.waiting.Len() + h.unknown.waiting.Len()
}

// hash hashes a new password at the current cost. The caller has acquired a turn.
func (h *hasher) hash(password string) Hash {
	h.count.Add(1)
	p := phc{cost: h.cost, salt: random(newSalt), sum: make([]byte, newSum)}
	p.sum = p.compute(password)
	return Hash(p.String())
}

// verify reports whether password matches stored. The caller has acquired a turn.
func (h *hasher) verify(stored phc, password string) bool {
	h.count.Add(1)
	return stored.matches(password)
}
