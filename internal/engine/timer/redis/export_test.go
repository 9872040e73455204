package redis

import "github.com/redis/go-redis/v9"

// Client returns the connection, for tests that inject faults.
func (q *Queue) Client() redis.UniversalClient { return q.client }

// Distrust makes every Lease ask all shards, because time stands still in tests.
func (q *Queue) Distrust() { q.pollAfter = 0 }
