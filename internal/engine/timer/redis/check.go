package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxSkew is the difference between server clock and local clock from which Check adds a warning.
const maxSkew = 5 * time.Second

// Check checks that the servers are suitable for timers. An error must prevent the start; the
// caller should log each warning.
func (q *Queue) Check(ctx context.Context) (warnings []string, err error) {
	var mu sync.Mutex
	one := func(ctx context.Context, c *redis.Client, cluster bool) error {
		lines, err := q.checkServer(ctx, c, cluster)
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, lines...)
		return err
	}
	switch c := q.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return one(ctx, c, true) })
	case *redis.Client:
		err = one(ctx, c, false)
	default:
		err = errors.New("redis: the client is of an unknown kind")
	}
	if err != nil {
		return warnings, err
	}
	return warnings, q.announce(ctx, 0) // checks the layout
}

// checkServer asks one server for its settings and clock, and returns warnings, which are warnings
// with a remedy for the operator. It fails if the server does not answer or cannot be used, as
// verify says.
func (q *Queue) checkServer(ctx context.Context, c *redis.Client, cluster bool) ([]string, error) {
	text, err := c.Info(ctx, "server", "memory", "persistence", "replication").Result()
	if err != nil {
		return nil, fmt.Errorf("redis %s: %w", c.Options().Addr, classify(err))
	}
	sent := q.opt.Now()
	clock, err := c.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("redis %s: %w", c.Options().Addr, classify(err))
	}
	s := server{addr: c.Options().Addr, info: parseInfo(text), skew: clock.Sub(sent.Add(q.opt.Now().Sub(sent) / 2))}
	warnings, err := s.verify(cluster)
	if err == nil && q.opt.Sentinel != "" && c.ConfigGet(ctx, "min-replicas-to-write").Val()["min-replicas-to-write"] == "0" {
		warnings = append(warnings, fmt.Sprintf("redis %s goes on alone when it is cut off from its replica, and what it acknowledges then is lost when the "+
			"Sentinels have made another one the master; set min-replicas-to-write 1", s.addr))
	}
	return warnings, err
}

// server is the state that a server reports.
type server struct {
	addr string
	info map[string]string // fields of the INFO command
	skew time.Duration     // server clock minus local clock
}

// parseInfo parses the "name:value" lines of INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// verify returns warnings about a server that loses timers on a restart or has a wrong clock. It
// returns an error, with a remedy, if the server cannot be used: its version, its eviction policy,
// cluster mode or its role as a replica.
func (s *server) verify(cluster bool) (warnings []string, err error) {
	major, _, _ := strings.Cut(s.info["redis_version"], ".")
	version, _ := strconv.Atoi(major)
	mode := s.info["redis_mode"]
	switch policy := s.info["maxmemory_policy"]; {
	case version < 7:
		return nil, fmt.Errorf("redis %s is version %s; timers need 7.0 or later", s.addr, s.info["redis_version"])
	case policy != "noeviction":
		return nil, fmt.Errorf("redis %s has maxmemory-policy %s, which drops timers when memory is short; set noeviction", s.addr, policy)
	case mode == "cluster" && !cluster:
		return nil, fmt.Errorf("redis %s is part of a cluster; add ?cluster=true to --redis", s.addr)
	case mode != "cluster" && cluster:
		return nil, fmt.Errorf("redis %s is not part of a cluster; remove ?cluster=true from --redis", s.addr)
	case s.info["role"] == "slave":
		return nil, fmt.Errorf("redis %s is a replica, which takes no writes; name the master, or the Sentinels with ?sentinel=NAME", s.addr)
	}
	if s.info["aof_enabled"] == "0" {
		warnings = append(warnings, fmt.Sprintf("redis %s has no append-only file: after a restart all timers are armed again; set appendonly yes", s.addr))
	}
	if s.skew.Abs() > maxSkew {
		warnings = append(warnings, fmt.Sprintf("redis %s: its clock is %v off this machine's", s.addr, s.skew.Round(time.Millisecond)))
	}
	return warnings, nil
}
