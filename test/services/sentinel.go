package services

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// SentinelName is the name of the master watched by the Sentinels.
const SentinelName = "main"

// Sentinels is a Redis master, a replica and three Sentinels, which promote the replica when the
// master does not answer for a second.
type Sentinels struct {
	Master, Replica *Server // initial roles
	Watchers        []*Server
}

// sentinel is a Sentinel, a redis-server in another mode.
type sentinel struct {
	server program
	master *Server
}

// RedisSentinel returns the servers with their directories below dir. They must be started.
func (t *Tools) RedisSentinel(ctx context.Context, dir string, o Options) (*Sentinels, error) {
	server, err := t.redisServer(ctx)
	one := func(name string, k kind) *Server {
		return &Server{Dir: filepath.Join(dir, name), Bound: o.Bound, kind: k}
	}
	s := &Sentinels{Master: one("master", &redisServer{server: server})}
	s.Replica = one("replica", &redisServer{server: server, master: s.Master})
	for _, name := range []string{"1", "2", "3"} {
		s.Watchers = append(s.Watchers, one(name, &sentinel{server, s.Master}))
	}
	return s, err
}

// Servers returns all servers in the order of starting.
func (s *Sentinels) Servers() []*Server { return append([]*Server{s.Master, s.Replica}, s.Watchers...) }

// Start starts the servers that do not run, and waits until each Sentinel knows the replica and the
// other Sentinels.
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

// URL returns the address for clients, which find the present master through it.
func (s *Sentinels) URL() string {
	addrs := make([]string, len(s.Watchers))
	for i, one := range s.Watchers {
		addrs[i] = one.Addr()
	}
	return "redis://" + strings.Join(addrs, ",") + "?sentinel=" + SentinelName
}

// ports returns 1: clients and other Sentinels use one port.
func (w *sentinel) ports() int { return 1 }

// create does nothing: command writes the configuration.
func (w *sentinel) create(context.Context, *Server) error { return nil }

// command writes the initial configuration. The Sentinel updates the same file.
func (w *sentinel) command(s *Server) (*exec.Cmd, error) {
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

// ready returns nil when the Sentinel answers a ping.
func (w *sentinel) ready(ctx context.Context, s *Server) error {
	db := client(s)
	defer db.Close()
	return db.Ping(ctx).Err()
}

// url returns the address of this Sentinel.
func (w *sentinel) url(s *Server) string { return "redis://" + s.Addr() + "?sentinel=" + SentinelName }
