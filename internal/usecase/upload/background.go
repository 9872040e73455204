package upload

import (
	"context"
	"sync"
)

// background runs work that outlives its request: seals and hashers. It is safe for concurrent use.
type background struct {
	all sync.WaitGroup // running work; close waits for it

	mu      sync.Mutex
	closed  bool                       // close was called: new work is cancelled at once
	cancels map[int]context.CancelFunc // by number of the work
	next    int                        // number of the next work
}

// run runs work in its own goroutine with a context that close cancels.
func (b *background) run(work func(ctx context.Context)) {
	ctx, end := context.WithCancel(context.Background())
	n := b.add(end)
	b.all.Go(func() {
		defer b.remove(n)
		defer end()
		work(ctx)
	})
}

// add registers the cancel function of new work and returns the number of the work, for remove.
// After close it calls end at once.
func (b *background) add(end context.CancelFunc) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		end()
	}
	if b.cancels == nil {
		b.cancels = map[int]context.CancelFunc{}
	}
	b.next++
	b.cancels[b.next] = end
	return b.next
}

// remove drops the cancel function of work number n, which has finished.
func (b *background) remove(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.cancels, n)
}

// close cancels all work, including work started later, and waits for it.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	for _, end := range b.cancels {
		end()
	}
	b.mu.Unlock()
	b.all.Wait()
}
