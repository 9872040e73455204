package redis_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/redis"
	"example.org/smartdrive/internal/engine/timer/timertest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// at returns options for the servers of a service, under a namespace of its own that is emptied at
// the end.
func at(t testing.TB, s servicetest.Service) redis.Options {
	t.Helper()
	hosts := strings.TrimPrefix(servicetest.URL(t, s), "redis://")
	return redis.Options{
		Addrs: strings.Split(strings.TrimSuffix(hosts, "/"), ","), Cluster: s == servicetest.RedisCluster, Namespace: servicetest.Unique(),
	}
}

// patience is how long a test waits for a reply of a server: one that is late because the machine
// is busy is not an outage.
const patience = time.Minute

// open returns a queue that is closed at the end.
func open(t testing.TB, opt redis.Options) *redis.Queue {
	t.Helper()
	q := redis.New(opt)
	switch c := q.Client().(type) { // the clients read their options at each call
	case *goredis.ClusterClient:
		o := c.Options()
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = patience, patience, patience
	case *goredis.Client:
		o := c.Options()
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = patience, patience, patience
	}
	t.Cleanup(func() {
		clean(t, q, opt.Namespace)
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

// clean removes all keys of a namespace; to the queue it is what FLUSHALL is.
func clean(t testing.TB, q *redis.Queue, namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sweep := func(ctx context.Context, c *goredis.Client) error {
		for keys := c.Scan(ctx, 0, "{"+namespace+":*", 10_000).Iterator(); keys.Next(ctx); {
			if err := c.Unlink(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	switch c := q.Client().(type) {
	case *goredis.ClusterClient:
		err = c.ForEachMaster(ctx, sweep)
	case *goredis.Client:
		err = sweep(ctx, c)
	}
	if err != nil {
		t.Logf("keys of %s stay: %v", namespace, err)
	}
}

// virtual makes a queue and its servers read a clock of the test. Setting it back affects only the
// servers: the process's clock is monotonic.
func virtual(opt redis.Options, c *timertest.Clock) redis.Options {
	var mu sync.Mutex
	var high time.Time
	opt.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		if now := c.Now(); now.After(high) {
			high = now
		}
		return high
	}
	opt.Clock, opt.MaxWait = c.Now, timer.Never
	return opt
}

// suite is a queue as timertest wants it.
type suite struct {
	*redis.Queue
	t         testing.TB
	namespace string
}

func (s suite) Flush() {
	if err := s.Queue.Flush(s.t.Context()); err != nil {
		s.t.Errorf("flush: %v", err)
	}
}

func (s suite) Forget() { clean(s.t, s.Queue, s.namespace) }

func newSuite(t testing.TB, opt redis.Options) suite {
	q := open(t, opt)
	q.Distrust()
	return suite{q, t, opt.Namespace}
}
