package rest

import (
	"context"
	"io"
	"math"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
)

// Large requests of all users share budgets, in bytes. Each user may have some tens of requests in
// flight, and there may be any number of users, so a limit for one request bounds nothing. The
// budgets are fractions of the memory from which on the runtime collects garbage more often
// (GOMEMLIMIT); the figures in brackets are those of 256 MiB, the default of serve.
const (
	defaultMemory = int64(256 * drive.MiB)

	workFraction = 8  // lists and bodies that are being worked on (32 MiB)
	bodyFraction = 16 // JSON that is coming in (16 MiB)
	sendFraction = 8  // answers that are on their way (32 MiB)

	itemMemory     = 16 << 10         // of an item of a page: a path of 4 KiB, in the row, in its view, in JSON that grows
	bodyTimes      = 16               // what becomes of a byte of JSON: 300,000 empty strings of four bytes take 16 each, twice while they grow
	documentRoom   = 16 << 20         // of a document, deflated, in the row and in its view
	smallBody      = 64 << 10         // and below: not counted
	smallAnswer    = 64 << 10         // and below: not counted
	roomPatience   = 20 * time.Second // how long a request waits for its turn
	answerYouth    = 5 * time.Second  // an answer is not broken off before, whoever waits
	answerLook     = 500 * time.Millisecond
	answerPatience = 20 * time.Second
)

// memory holds the budgets and what is left of them.
type memory struct {
	work    *budget
	reading reading
	sending answers
}

// newMemory makes budgets for a process that may use limit bytes.
func newMemory(limit int64) *memory {
	work, send := limit/workFraction, limit/sendFraction
	return &memory{
		work: newBudget(work), reading: reading{most: limit / bodyFraction},
		sending: answers{most: send, free: send, open: map[*answering]struct{}{}},
	}
}

// memoryLimit is what the runtime was told; a process that was told nothing gets the default.
func memoryLimit() int64 {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return defaultMemory
	}
	return limit
}

// take waits until there is memory for what the request does; leave gives it back. A call takes
// once. All requests of a user have half of the memory: there is room for another user's then.
func (c *call) take(ctx context.Context, n int64) error {
	return c.takeOf(ctx, n, c.memory.work.most/2)
}

// takePage is take for a page of n items, of which a user has few at a time: each holds one of the
// database's few connections while it is read.
func (c *call) takePage(ctx context.Context, n int64) error {
	c.page = true
	return c.take(ctx, n*itemMemory)
}

// takeDocuments is take for n documents, of which a user may have as many in memory as fit: some
// are committed together.
func (c *call) takeDocuments(ctx context.Context, n int64) error {
	return c.takeOf(ctx, n*documentRoom, c.memory.work.most)
}

func (c *call) takeOf(ctx context.Context, n, most int64) error {
	if n = min(n, c.memory.work.most); c.room > 0 || n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, roomPatience)
	defer cancel()
	acquire := c.memory.work.acquire
	if c.page {
		acquire = c.memory.work.acquirePage
	}
	if err := acquire(ctx, c.reader(), n, most); err != nil {
		return drive.Wrap(err, drive.Unavailable, "retry_after", 1)
	}
	c.room = n
	return nil
}

func (c *call) leave() {
	if c.room == 0 {
		return
	}
	if c.page {
		c.memory.work.releasePage(c.reader(), c.room)
	} else {
		c.memory.work.release(c.reader(), c.room)
	}
	c.room = 0
}

// reading counts the bytes of bodies that are in memory.
type reading struct {
	most int64
	n    atomic.Int64
}

// limited reads a body of which so much is taken into memory as there is for all of them.
type limited struct {
	src  io.Reader
	all  *reading
	n    int64 // read
	took int64 // of all
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.src.Read(p)
	if l.n += int64(n); l.n > smallBody+l.took {
		more := l.n - smallBody - l.took
		l.took += more
		if l.all.n.Add(more) > l.all.most {
			return 0, drive.Fail(drive.Unavailable, "retry_after", 10)
		}
	}
	return n, err
}

func (l *limited) close() { l.all.n.Add(-l.took) }

// answers are those that are being sent to clients who may read slowly. Where there is no room for
// one more the oldest is broken off.
type answers struct {
	mu   sync.Mutex
	most int64 // bytes
	free int64
	open map[*answering]struct{}
}

type answering struct {
	n     int64
	since time.Time
	end   func() // makes the Write that waits return
	over  bool   // it was called
}

// begin waits for room for an answer of n bytes. done gives it back, and says whether the answer
// was broken off.
func (a *answers) begin(ctx context.Context, n int64, end func()) (done func() (over bool), err error) {
	if n <= smallAnswer {
		return func() bool { return false }, nil
	}
	one := &answering{n: min(n, a.most), since: time.Now(), end: end}
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	again := time.NewTicker(answerLook)
	defer again.Stop()
	for !a.enter(one) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, drive.Wrap(ctx.Err(), drive.Unavailable, "retry_after", 1)
		}
	}
	return func() bool { return a.leave(one) }, nil
}

// enter takes the room if there is some, and else makes some.
func (a *answers) enter(one *answering) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.free >= one.n {
		a.free -= one.n
		one.since = time.Now()
		a.open[one] = struct{}{}
		return true
	}
	var oldest *answering
	coming := a.free
	for other := range a.open {
		if other.over {
			coming += other.n
		}
		if !other.over && time.Since(other.since) > answerYouth && (oldest == nil || other.since.Before(oldest.since)) {
			oldest = other
		}
	}
	if oldest != nil && coming < one.n {
		oldest.over = true
		oldest.end()
	}
	return false
}

func (a *answers) leave(one *answering) (over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, one)
	a.free += one.n
	return one.over
}

// answering takes room for an answer of n bytes, and gives back what working on it has taken.
func (c *call) answering(ctx context.Context, n int64) (done func(), err error) {
	return c.answeringUntil(ctx, n, func() {})
}

// answeringUntil is answering for an answer that may wait for something else than its reader; stop
// ends that.
func (c *call) answeringUntil(ctx context.Context, n int64, stop func()) (done func(), err error) {
	conn := http.NewResponseController(c.w)
	end, err := c.memory.sending.begin(ctx, n, func() {
		_ = conn.SetWriteDeadline(time.Now()) // without a connection nothing is slow
		stop()
	})
	if err != nil {
		return nil, err
	}
	c.leave()
	return func() {
		if end() {
			_ = conn.SetWriteDeadline(time.Time{}) // it was the last Write of this answer that was meant
		}
	}, nil
}
