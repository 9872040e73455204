package upload

import (
	"context"
	"sync"
)

// background is work that outlives the request that began it: seals, and readers of what has
// arrived. It is safe for concurrent use.
type background struct {
	all sync.WaitGroup

	mu     sync.Mutex
	closed bool
	ends   map[int]context.CancelFunc
	next   int
}

// run does work in a goroutine of its own, whose context ends when the background is closed.
func (b *background) run(work func(ctx context.Context)) {
	ctx, end := context.WithCancel(context.Background())
	n := b.enter(end)
	b.all.Go(func() {
		defer b.leave(n)
		defer end()
		work(ctx)
	})
}

func (b *background) enter(end context.CancelFunc) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		end()
	}
	if b.ends == nil {
		b.ends = map[int]context.CancelFunc{}
	}
	b.next++
	b.ends[b.next] = end
	return b.next
}

func (b *background) leave(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ends, n)
}

// close ends all work, also what begins later, and waits for it.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	for _, end := range b.ends {
		end()
	}
	b.mu.Unlock()
	b.all.Wait()
}
