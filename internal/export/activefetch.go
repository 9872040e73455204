package export

import (
	"context"
	"io"
	"sync/atomic"
	"time"
)

// activeFetch is a running fetch of a remote document. cancelSlow cancels it if it is too slow.
type activeFetch struct {
	begun    time.Time
	received atomic.Int64 // bytes received
	cancel   context.CancelCauseFunc
}

// beginFetch registers a running fetch in r.fetches and returns the context to fetch under. The
// caller must call endFetch.
func (r *run) beginFetch(ctx context.Context) (context.Context, *activeFetch) {
	f := &activeFetch{begun: time.Now()}
	ctx, f.cancel = context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fetches == nil {
		r.fetches = map[*activeFetch]struct{}{}
	}
	r.fetches[f] = struct{}{}
	return ctx, f
}

// endFetch removes a fetch from the running ones and releases its context. The caller calls it once
// when the fetch is over.
func (r *run) endFetch(f *activeFetch) {
	f.cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.fetches, f)
}

// countBytes returns a reader of src that adds the bytes read to f.received.
func (f *activeFetch) countBytes(src io.Reader) io.Reader { return &countingReader{src, &f.received} }

// countingReader is a Reader that adds the bytes read to n.
type countingReader struct {
	src io.Reader
	n   *atomic.Int64
}

// Read reads from src and adds the number of bytes read to n, also on an error.
func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// cancelSlow cancels, with errYield, the fetches older than slowAge whose rate is below slowRate;
// their entries are retried later.
func (r *run) cancelSlow(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range r.fetches {
		if age := now.Sub(f.begun); age >= r.slowAge && float64(f.received.Load()) < slowRate*age.Seconds() {
			f.cancel(errYield)
		}
	}
}

// watchYield calls yield every yieldPoll in a goroutine, and cancels slow fetches while it reports
// true. The caller must call stop, which waits for the goroutine.
func (r *run) watchYield(yield func() bool) (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(yieldPoll)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				if yield() {
					r.cancelSlow(now)
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-over
	}
}
