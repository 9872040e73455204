package s3

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// batcher sends script calls that come while others are on their way together, as one pipeline:
// with many parts at once a round trip each is what Redis and this process would spend most of
// their time on. One alone goes at once.
type batcher struct {
	redis redis.UniversalClient

	mu      sync.Mutex
	waiting []*call
	senders int
}

// Bounds of a batcher. Two senders, so that one batch is gathered while another is being answered
// and a third on its way.
const (
	maxSenders = 2
	maxBatch   = 128
)

// call is one script call; answer and err are set when done is closed.
type call struct {
	script *redis.Script
	keys   []string
	args   []any

	done   chan struct{}
	answer answer
	err    error
}

// run makes a call and waits for its answer. When ctx ends before it comes the call may be made all
// the same.
func (b *batcher) run(ctx context.Context, s *redis.Script, keys []string, args ...any) (answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	c := &call{script: s, keys: keys, args: args, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	if b.senders < maxSenders {
		b.senders++
		go b.send(context.WithoutCancel(ctx)) // ends with the last call that waits
	}
	b.mu.Unlock()
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
		return nil, fmt.Errorf("journal: %w", ctx.Err())
	}
}

// take returns the calls to send next; none ends the sender.
func (b *batcher) take() []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxBatch)
	if n == 0 {
		b.senders--
		return nil
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return batch
}

func (b *batcher) send(ctx context.Context) {
	for batch := b.take(); len(batch) > 0; batch = b.take() {
		b.sendBatch(ctx, batch)
	}
}

func (b *batcher) sendBatch(ctx context.Context, batch []*call) {
	ctx, stop := context.WithTimeout(ctx, tidyTime)
	defer stop()
	pipe := b.redis.Pipeline()
	cmds := make([]*redis.Cmd, len(batch))
	for i, c := range batch {
		cmds[i] = c.script.EvalSha(ctx, pipe, c.keys, c.args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	for i, c := range batch {
		v, err := cmds[i].Slice()
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // Redis has started again
			v, err = c.script.Run(ctx, b.redis, c.keys, c.args...).Slice()
		}
		c.answer, c.err = v, answerError(err)
		close(c.done)
	}
}

// answerError gives an error of a call its kind.
func answerError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("journal: %w", classifyRedis(err))
}
