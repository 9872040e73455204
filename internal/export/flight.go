package export

import (
	"context"
	"io"
	"sync/atomic"
	"time"
)

// flight is a document on its way.
type flight struct {
	since time.Time
	got   atomic.Int64 // bytes
	end   context.CancelCauseFunc
}

// takeOff begins a flight; land ends it.
func (r *run) takeOff(ctx context.Context) (context.Context, *flight) {
	f := &flight{since: time.Now()}
	ctx, f.end = context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flights == nil {
		r.flights = map[*flight]struct{}{}
	}
	r.flights[f] = struct{}{}
	return ctx, f
}

func (r *run) land(f *flight) {
	f.end(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flights, f)
}

// through counts what comes.
func (f *flight) through(src io.Reader) io.Reader { return &counted{src, &f.got} }

type counted struct {
	src io.Reader
	n   *atomic.Int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// giveUpSlow ends the flights that have had their time and are slow.
func (r *run) giveUpSlow(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range r.flights {
		if age := now.Sub(f.since); age >= r.slowAge && float64(f.got.Load()) < slowRate*age.Seconds() {
			f.end(errYield)
		}
	}
}

// whileYielding looks now and then whether the batch is asked for, and gives up what is slow then.
// The caller ends it.
func (r *run) whileYielding(yield func() bool) (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(lookAt)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				if yield() {
					r.giveUpSlow(now)
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
