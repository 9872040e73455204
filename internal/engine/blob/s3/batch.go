package s3

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// batcher combines script calls into pipelines while other calls are in flight, because one round
// trip per call would dominate the cost of parts. A single call is sent at once.
type batcher struct {
	redis redis.UniversalClient

	mu      sync.Mutex
	waiting []*call // calls to be sent
	senders int     // running calls of send
}

// Bounds of a batcher. With two senders, one batch is gathered while another is being answered and
// a third is in flight.
const (
	maxSenders = 2
	maxBatch   = 128
)

// call is one script call. answer and err are set when done is closed.
type call struct {
	script *redis.Script
	keys   []string // of the script
	args   []any    // of the script

	done   chan struct{} // closed when answer and err are set
	answer answer
	err    error
}

// run makes a call and waits for its answer. If ctx ends first, run returns an error, and the call
// may be made anyway.
func (b *batcher) run(ctx context.Context, s *redis.Script, keys []string, args ...any) (answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	c := &call{script: s, keys: keys, args: args, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	if b.senders < maxSenders {
		b.senders++
		go b.send(context.WithoutCancel(ctx)) // send returns when no call waits
	}
	b.mu.Unlock()
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
		return nil, fmt.Errorf("journal: %w", ctx.Err())
	}
}

// nextBatch returns the next calls to send, at most maxBatch. If none wait, it returns nil and
// deregisters the sender.
func (b *batcher) nextBatch() []*call {
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

// send sends batches until no call waits.
func (b *batcher) send(ctx context.Context) {
	for batch := b.nextBatch(); len(batch) > 0; batch = b.nextBatch() {
		b.sendBatch(ctx, batch)
	}
}

// sendBatch sends calls as one pipeline, stores the answer or error in each call and closes its
// done channel. Each call has its own error; a script that Redis does not know is sent again with
// its text.
func (b *batcher) sendBatch(ctx context.Context, batch []*call) {
	ctx, stop := context.WithTimeout(ctx, cleanupTime)
	defer stop()
	pipe := b.redis.Pipeline()
	cmds := make([]*redis.Cmd, len(batch))
	for i, c := range batch {
		cmds[i] = c.script.EvalSha(ctx, pipe, c.keys, c.args...)
	}
	_, _ = pipe.Exec(ctx) // each command carries its own error
	for i, c := range batch {
		v, err := cmds[i].Slice()
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // Redis has restarted
			v, err = c.script.Run(ctx, b.redis, c.keys, c.args...).Slice()
		}
		c.answer, c.err = v, answerError(err)
		close(c.done)
	}
}

// answerError wraps and classifies the error of a call; nil stays nil.
func answerError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("journal: %w", classifyRedis(err))
}
