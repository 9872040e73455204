package services

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// SentinelName is the name of the master that Sentinels watch.
const SentinelName = "main"

// Sentinels are a Redis, a replica of it, and three Sentinels that put the replica in its place
// when it does not answer for a second.
type Sentinels struct {
	Master, Replica *Server // as they begin
	Watchers        []*Server
}

// watcher is a Sentinel: redis-server in another mode.
type watcher struct {
	server program
	master *Server
}

// RedisSentinel returns them with their directories below dir.
func (t *Tools) RedisSentinel(ctx context.Context, dir string, o Options) (*Sentinels, error) {
	server, err := t.redisServer(ctx)
	one := func(name string, k kind) *Server {
		return &Server{Dir: filepath.Join(dir, name), Bound: o.Bound, kind: k}
	}
	s := &Sentinels{Master: one("master", &memory{server: server})}
	s.Replica = one("replica", &memory{server: server, of: s.Master})
	for _, name := range []string{"1", "2", "3"} {
		s.Watchers = append(s.Watchers, one(name, &watcher{server, s.Master}))
	}
	return s, err
}

// Servers are all of them, each after those that it needs.
func (s *Sentinels) Servers() []*Server { return append([]*Server{s.Master, s.Replica}, s.Watchers...) }

// Start starts those that do not run, and waits until each Sentinel knows the replica and the
// others.
func (s *Sentinels) Start(ctx context.Context) error {
	for _, one := range s.Servers() {
		if err := one.Start(ctx); err != nil {
			return err
		}
	}
	for _, one := range s.Watchers {
		db := client(one)
		err := poll(ctx, func() (bool, error) {
			info, err := db.Info(ctx, "sentinel").Result()
			return err == nil && strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=1,sentinels=3"), nil
		})
		db.Close()
		if err != nil {
			return fmt.Errorf("the Sentinels do not know each other: %w", err)
		}
	}
	return nil
}

// URL is where clients find the master, whoever it is.
func (s *Sentinels) URL() string {
	addrs := make([]string, len(s.Watchers))
	for i, one := range s.Watchers {
		addrs[i] = one.Addr()
	}
	return "redis://" + strings.Join(addrs, ",") + "?sentinel=" + SentinelName
}

func (w *watcher) ports() int { return 1 }

func (w *watcher) create(context.Context, *Server) error { return nil }

// command writes the first configuration; a Sentinel keeps what it learns in the same file.
func (w *watcher) command(s *Server) (*exec.Cmd, error) {
	file := filepath.Join(s.path("data"), "sentinel.conf")
	if _, err := os.Stat(file); err != nil {
		text := fmt.Sprintf(`port %[1]s
bind %[2]s
sentinel monitor %[3]s %[2]s %[4]s 2
sentinel down-after-milliseconds %[3]s 1000
sentinel failover-timeout %[3]s 10000
`, s.port(0), loopback, SentinelName, w.master.port(0))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return w.server.command(file, "--sentinel"), nil
}

func (w *watcher) ready(ctx context.Context, s *Server) error {
	db := client(s)
	defer db.Close()
	return db.Ping(ctx).Err()
}

func (w *watcher) url(s *Server) string { return "redis://" + s.Addr() + "?sentinel=" + SentinelName }
