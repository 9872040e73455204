package redis

import "github.com/redis/go-redis/v9"

// Client is the connection, for tests that make faults.
func (q *Queue) Client() redis.UniversalClient { return q.client }

// Distrust makes every Lease ask all shards: time does not pass by itself in tests.
func (q *Queue) Distrust() { q.pollAfter = 0 }
