package account

import (
	"container/list"
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"smartdrive/internal/base/drive"
)

// Hash is a password as it is stored: an Argon2id PHC string. Only Users.Hash makes one.
type Hash string

const (
	maxHashing   = 2       // hashes at a time: two cores' worth, and 38 MiB
	maxKnown     = 64      // hashes of known visitors that may wait, about a second of work; more are told to come back
	maxStrangers = 1 << 10 // of strangers: 16 s of work, and less than a MiB
	maxPerSource = 4       // of these for one source, so that one alone cannot fill the line
	strangerTurn = 4       // each fourth turn is a stranger's while both wait
)

// visitor is on whose behalf something is hashed.
type visitor struct {
	source string // where it comes from; empty: a local socket, or somebody whose password was checked already
	known  bool   // goes before strangers
}

// hasher hashes passwords, maxHashing at a time. Those who wait stand in two lines, each first
// come, first served:
//
//	known      who has logged in from there before, and changes of a password
//	strangers  everybody else: a thousand addresses that guess make each other wait, and not those
type hasher struct {
	cost  Cost
	dummy phc // what the password of an unknown user is checked against
	count atomic.Int64

	mu        sync.Mutex
	busy      int
	turn      int // of the line that is served when both wait
	known     line
	strangers line
}

// line is who waits.
type line struct {
	most    int
	waiting *list.List // of *waiter
	of      map[string]int
}

type waiter struct {
	visitor

	line   *line
	at     *list.Element // nil: has its turn
	called chan struct{} // closed when it has
}

func newLine(most int) line { return line{most: most, waiting: list.New(), of: map[string]int{}} }

func (l *line) joinLocked(w *waiter) bool {
	if l.waiting.Len() >= l.most || w.source != "" && l.of[w.source] >= maxPerSource {
		return false
	}
	w.line, w.at = l, l.waiting.PushBack(w)
	l.of[w.source]++
	return true
}

func (l *line) leaveLocked(w *waiter) {
	l.waiting.Remove(w.at)
	if l.of[w.source]--; l.of[w.source] == 0 {
		delete(l.of, w.source)
	}
	w.at = nil
}

func newHasher(cost Cost) *hasher {
	if cost == (Cost{}) {
		cost = DefaultCost
	}
	return &hasher{
		cost: cost, known: newLine(maxKnown), strangers: newLine(maxStrangers),
		dummy: phc{cost: cost, salt: random(newSalt), sum: random(newSum)},
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return b
}

// enter waits for a turn to hash; leave must be called.
func (h *hasher) enter(ctx context.Context, v visitor) (leave func(), err error) {
	w := &waiter{visitor: v, called: make(chan struct{})}
	if !h.join(w) {
		return nil, drive.Fail(drive.Rate, "retry_after", 1)
	}
	select {
	case <-w.called:
		return h.leave, nil
	case <-ctx.Done():
		h.withdraw(w)
		return nil, drive.Wrap(ctx.Err(), drive.Unavailable)
	}
}

// join gives a turn or a place in a line; false: there is none left.
func (h *hasher) join(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy < maxHashing {
		h.busy++
		close(w.called)
		return true
	}
	if w.known {
		return h.known.joinLocked(w)
	}
	return h.strangers.joinLocked(w)
}

// leave hands a turn on.
func (h *hasher) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	first, second := &h.known, &h.strangers
	if h.turn++; h.turn%strangerTurn == 0 {
		first, second = second, first
	}
	for _, l := range []*line{first, second} {
		if next := l.waiting.Front(); next != nil {
			w := next.Value.(*waiter)
			l.leaveLocked(w)
			close(w.called)
			return
		}
	}
	h.busy--
}

// withdraw takes a visitor out who does not wait any longer.
func (h *hasher) withdraw(w *waiter) {
	h.mu.Lock()
	waits := w.at != nil
	if waits {
		w.line.leaveLocked(w)
	}
	h.mu.Unlock()
	if !waits { // it was given its turn at this moment
		h.leave()
	}
}

// waiting is how many stand in the lines.
func (h *hasher) waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known.waiting.Len() + h.strangers.waiting.Len()
}

// make hashes a new password at the current cost; the caller has its turn.
func (h *hasher) make(password string) Hash {
	h.count.Add(1)
	p := phc{cost: h.cost, salt: random(newSalt), sum: make([]byte, newSum)}
	p.sum = p.compute(password)
	return Hash(p.String())
}

// verify compares; the caller has its turn.
func (h *hasher) verify(stored phc, password string) bool {
	h.count.Add(1)
	return stored.matches(password)
}
