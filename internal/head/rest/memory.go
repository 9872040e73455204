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

	"example.org/smartdrive/internal/base/drive"
)

// Large requests of all users share budgets in bytes. A user may have some tens of requests in
// flight, and the number of users is unbounded, so a limit per request would bound nothing. The
// budgets are fractions of GOMEMLIMIT, the memory above which the runtime collects garbage more
// often. The figures in brackets are for 192 MiB, the default of serve.
const (
	defaultMemory = int64(192 * drive.MiB)

	workFraction = 6  // lists and bodies being processed (32 MiB)
	bodyFraction = 12 // JSON being received (16 MiB)
	sendFraction = 6  // responses being sent (32 MiB)

	itemMemory     = 16 << 10         // per item of a page: a path of 4 KiB in the row, in its view, and in JSON whose buffer grows
	bodyFactor     = 16               // memory per byte of JSON: 300,000 empty strings of four bytes take 16 bytes each, twice while the slice grows
	documentMemory = 16 << 20         // per document: deflated, in the row and in its view
	smallBody      = 64 << 10         // bodies up to this size are not counted
	smallResponse  = 64 << 10         // responses up to this size are not counted
	memoryTimeout  = 20 * time.Second // longest wait of a request for memory
	abortAge       = 5 * time.Second  // a response is not aborted before this age
	// retryEvery is the interval of retrying while a response waits for memory, and responseTimeout
	// the longest wait.
	retryEvery      = 500 * time.Millisecond
	responseTimeout = 20 * time.Second
)

// memory holds the budgets for handlers, request bodies and responses being sent.
type memory struct {
	work    *budget
	reading bodyBytes
	sending responses
}

// newMemory returns budgets for a process that may use limit bytes.
func newMemory(limit int64) *memory {
	work, send := limit/workFraction, limit/sendFraction
	return &memory{
		work: newBudget(work), reading: bodyBytes{most: limit / bodyFraction},
		sending: responses{most: send, free: send, open: map[*response]struct{}{}},
	}
}

// memoryLimit returns GOMEMLIMIT in bytes, or defaultMemory if it is not set.
func memoryLimit() int64 {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return defaultMemory
	}
	return limit
}

// acquireMemory waits until n bytes are available for processing the request; releaseMemory
// releases them. A user's requests get at most half of the budget together. If the request has
// acquired memory already, it does nothing. It fails with drive.Unavailable after memoryTimeout.
func (c *call) acquireMemory(ctx context.Context, n int64) error {
	return c.acquireOf(ctx, n, c.memory.work.most/2)
}

// acquirePage acquires memory for a page of n items of a list, as acquireMemory does. Of one user,
// at most pagesAtOnce pages are read at a time, because each occupies one of the database's few
// connections.
func (c *call) acquirePage(ctx context.Context, n int64) error {
	c.page = true
	return c.acquireMemory(ctx, n*itemMemory)
}

// acquireDocuments acquires memory for n documents, as acquireMemory does. A user may use the whole
// budget, because several documents are committed together.
func (c *call) acquireDocuments(ctx context.Context, n int64) error {
	return c.acquireOf(ctx, n*documentMemory, c.memory.work.most)
}

// acquireOf acquires n bytes, but at most the whole budget, and waits until they are free and the
// user holds no more than most bytes with them. It does nothing if the request has acquired memory
// already. It fails with drive.Unavailable after memoryTimeout. releaseMemory releases the bytes.
func (c *call) acquireOf(ctx context.Context, n, most int64) error {
	if n = min(n, c.memory.work.most); c.acquired > 0 || n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	acquire := c.memory.work.acquire
	if c.page {
		acquire = c.memory.work.acquirePage
	}
	if err := acquire(ctx, c.reader(), n, most); err != nil {
		return drive.Wrap(err, drive.Unavailable, "retry_after", 1)
	}
	c.acquired = n
	return nil
}

// releaseMemory releases the memory that the request has acquired. Without any, or called again, it
// does nothing.
func (c *call) releaseMemory() {
	if c.acquired == 0 {
		return
	}
	if c.page {
		c.memory.work.releasePage(c.reader(), c.acquired)
	} else {
		c.memory.work.release(c.reader(), c.acquired)
	}
	c.acquired = 0
}

// bodyBytes counts the bytes of all request bodies in memory.
type bodyBytes struct {
	most int64
	n    atomic.Int64
}

// countedBody reads a body and counts its bytes beyond smallBody in all. It fails with
// drive.Unavailable if all exceeds its limit.
type countedBody struct {
	src     io.Reader
	all     *bodyBytes
	n       int64 // bytes read
	counted int64 // bytes counted in all
}

// Read charges the bytes beyond smallBody to the memory of all bodies. It fails with
// drive.Unavailable if these exceed their limit.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if b.n += int64(n); b.n > smallBody+b.counted {
		more := b.n - smallBody - b.counted
		b.counted += more
		if b.all.n.Add(more) > b.all.most {
			return 0, drive.Fail(drive.Unavailable, "retry_after", 10)
		}
	}
	return n, err
}

// close ends counting the bytes of the body. Call it once, when the body is no longer in memory. It
// does not close src.
func (b *countedBody) close() { b.all.n.Add(-b.counted) }

// responses holds the memory of responses that are being sent to clients, which may read slowly. If
// a new response does not fit, the oldest one is aborted.
type responses struct {
	mu   sync.Mutex
	most int64 // bytes
	free int64
	open map[*response]struct{}
}

// response is a response that occupies memory while it is sent.
type response struct {
	n     int64
	since time.Time
	end   func() // makes a blocked Write return
	over  bool   // end was called
}

// begin waits until n bytes are available for a response, and fails with drive.Unavailable after
// responseTimeout. Later the response may be aborted in favor of others: then end is called, which
// must make a blocked Write return. Without an error the caller must call done after the response;
// done releases the bytes and reports whether the response was aborted.
func (r *responses) begin(ctx context.Context, n int64, end func()) (done func() (over bool), err error) {
	if n <= smallResponse {
		return func() bool { return false }, nil
	}
	one := &response{n: min(n, r.most), since: time.Now(), end: end}
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	again := time.NewTicker(retryEvery)
	defer again.Stop()
	for !r.tryAcquire(one) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, drive.Wrap(ctx.Err(), drive.Unavailable, "retry_after", 1)
		}
	}
	return func() bool { return r.release(one) }, nil
}

// tryAcquire acquires the memory of a response and returns true if enough is free. Otherwise it
// returns false, after it has aborted the oldest response if that is old enough; the caller
// retries.
func (r *responses) tryAcquire(one *response) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free >= one.n {
		r.free -= one.n
		one.since = time.Now()
		r.open[one] = struct{}{}
		return true
	}
	var oldest *response
	coming := r.free
	for other := range r.open {
		if other.over {
			coming += other.n
		}
		if !other.over && time.Since(other.since) > abortAge && (oldest == nil || other.since.Before(oldest.since)) {
			oldest = other
		}
	}
	if oldest != nil && coming < one.n {
		oldest.over = true
		oldest.end()
	}
	return false
}

// release releases the memory of a response, and reports whether the response was aborted.
func (r *responses) release(one *response) (over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, one)
	r.free += one.n
	return one.over
}

// startResponse acquires memory for sending a response of n bytes, and releases that of processing
// the request. Without an error the caller must call done after the last Write. It fails with
// drive.Unavailable if no memory becomes free in time.
func (c *call) startResponse(ctx context.Context, n int64) (done func(), err error) {
	return c.startResponseUntil(ctx, n, func() {})
}

// startResponseUntil is startResponse for a response that may also wait for something other than
// its client, such as more of the body. stop is called if the response is aborted, and must end
// that wait.
func (c *call) startResponseUntil(ctx context.Context, n int64, stop func()) (done func(), err error) {
	conn := http.NewResponseController(c.w)
	end, err := c.memory.sending.begin(ctx, n, func() {
		_ = conn.SetWriteDeadline(time.Now()) // fails only without a connection, where no client is slow
		stop()
	})
	if err != nil {
		return nil, err
	}
	c.releaseMemory()
	return func() {
		if end() {
			_ = conn.SetWriteDeadline(time.Time{}) // the deadline was meant for this response only
		}
	}, nil
}
