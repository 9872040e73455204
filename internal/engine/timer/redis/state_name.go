package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// StateID returns an identifier of the queue's content since its last loss, the same in every
// process. If the identifier differs from an earlier one, timers of that time may be missing, even
// if no process noticed the loss.
func (q *Queue) StateID(ctx context.Context) (string, error) {
	if err := q.fetchEpochs(ctx, false); err != nil {
		return "", fmt.Errorf("name the state of the timers: %w", err)
	}
	h := sha256.New()
	for _, sh := range q.shards {
		epoch, _ := sh.epochAndClock(q.opt.Now())
		h.Write([]byte(epoch + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
