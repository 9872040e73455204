package upload

import (
	"context"
	"sync"
)

// background runs work that outlives its request: seals and hashers. It is safe for concurrent use.
type background struct {
	all sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	cancels map[int]context.CancelFunc
	next    int
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

// add registers the cancel function of new work and returns its number. After close it cancels at
// once.
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

// remove drops the cancel function of finished work.
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
