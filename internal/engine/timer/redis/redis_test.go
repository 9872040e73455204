package redis_test

import (
	"testing"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/timertest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	opt := at(t, servicetest.Redis)
	timertest.Run(t, func(t *testing.T, c *timertest.Clock) timer.Queue {
		opt := virtual(opt, c)
		opt.Namespace, opt.Shards = servicetest.Unique(), 3
		return newSuite(t, opt)
	})
}

func TestQueueOnACluster(t *testing.T) {
	t.Parallel()
	opt := at(t, servicetest.RedisCluster)
	timertest.Run(t, func(t *testing.T, c *timertest.Clock) timer.Queue {
		opt := virtual(opt, c)
		opt.Namespace, opt.Shards = servicetest.Unique(), 7
		return newSuite(t, opt)
	})
}
