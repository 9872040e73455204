package redis

import (
	"testing"
	"time"

	"smartdrive/internal/engine/timer"
)

// A look at a shard that asks it nothing does not count as one that has verified its server.
func TestALookVerifiesNothing(t *testing.T) {
	t.Parallel()
	sh, now := newShard("test", 0), time.Now()
	for range 2 {
		if _, _, _, check := sh.outlook(timer.Park, now); !check {
			t.Error("the server was not asked, and is not to be asked")
		}
	}
}
