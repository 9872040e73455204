package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// State names the queue as it is since it last lost something: another name means that timers may
// be missing which were there under the former one, also if nobody was looking when they went.
// Every process gets the same name.
func (q *Queue) State(ctx context.Context) (string, error) {
	if err := q.hello(ctx, false); err != nil {
		return "", fmt.Errorf("name the state of the timers: %w", err)
	}
	h := sha256.New()
	for _, sh := range q.shards {
		epoch, _ := sh.knows(q.opt.Now())
		h.Write([]byte(epoch + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
