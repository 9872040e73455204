package redis_test

import (
	"testing"

	"smartdrive/internal/engine/timer"
	"smartdrive/internal/engine/timer/timertest"
	"smartdrive/internal/testkit/servicetest"
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
