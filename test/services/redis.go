package services

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/redis/go-redis/v9"
)

// redisServer is a redis-server with an append-only file, synced once a second.
type redisServer struct {
	server    program
	snapshots bool    // instead of the append-only file
	cluster   bool    // node of a cluster
	master    *Server // for a replica: its master
}

// Redis returns a standalone Redis with data in dir. It must be started.
func (t *Tools) Redis(ctx context.Context, dir string, o Options) (*Server, error) {
	server, err := t.redisServer(ctx)
	return &Server{Dir: dir, Bound: o.Bound, kind: &redisServer{server: server, snapshots: o.Snapshots}}, err
}

// redisServer returns Redis 7 or later from PATH, or a downloaded one.
func (t *Tools) redisServer(ctx context.Context) (program, error) {
	if path, ok := lookPath("redis-server"); ok {
		p := program{path: path}
		if p.atLeast(ctx, 7, 0, "--version") == nil {
			return p, nil
		}
	}
	root, err := t.debian(ctx, "redis", "redis-server", "redis-tools")
	if err != nil {
		return program{}, fmt.Errorf("redis-server: %w", err)
	}
	return unpacked(root, "usr/bin/redis-server")
}

// ports returns the number of ports: a cluster node has a second one.
func (m *redisServer) ports() int {
	if m.cluster {
		return 2 // clients and other nodes
	}
	return 1
}

// create does nothing: Redis needs no preparation.
func (m *redisServer) create(context.Context, *Server) error { return nil }

// command returns the command of the server.
func (m *redisServer) command(s *Server) (*exec.Cmd, error) {
	args := []string{
		"--port", s.port(0), "--bind", loopback, "--dir", s.path("data"), "--maxmemory-policy", "noeviction",
		"--enable-debug-command", "local", // DEBUG SLEEP, DEBUG SET-TIME and others, for tests
	}
	if !m.snapshots {
		args = append(args, "--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
	}
	if m.cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", s.port(1), "--cluster-node-timeout", "5000")
	}
	if m.master != nil {
		args = append(args, "--replicaof", loopback, m.master.port(0), "--repl-diskless-sync-delay", "0")
	}
	return m.server.command(args...), nil
}

// ready returns nil when the server answers a ping.
func (m *redisServer) ready(ctx context.Context, s *Server) error {
	db := client(s)
	defer db.Close()
	return db.Ping(ctx).Err()
}

// url returns the address for clients.
func (m *redisServer) url(s *Server) string { return "redis://" + s.Addr() }

// client returns a client without retries.
func client(s *Server) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true, MaxRetries: -1})
}

// Cluster is a Redis Cluster with three masters.
type Cluster struct{ Nodes []*Server }

// RedisCluster returns a cluster with the directories of its nodes below dir. It must be started.
func (t *Tools) RedisCluster(ctx context.Context, dir string, o Options) (*Cluster, error) {
	server, err := t.redisServer(ctx)
	c := &Cluster{}
	for _, name := range []string{"1", "2", "3"} {
		node := &Server{Dir: dir + "/" + name, Bound: o.Bound, kind: &redisServer{server: server, cluster: true}}
		c.Nodes = append(c.Nodes, node)
	}
	return c, err
}

// Start starts the nodes that do not run, forms the cluster, and waits until it serves every key.
func (c *Cluster) Start(ctx context.Context) error {
	for _, node := range c.Nodes {
		if _, err := node.Launch(ctx); err != nil {
			return err
		}
	}
	for i, node := range c.Nodes {
		if err := node.Start(ctx); err != nil {
			return err
		}
		if err := c.join(ctx, i); err != nil {
			return fmt.Errorf("join the cluster: %w", err)
		}
	}
	return c.Await(ctx)
}

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// join assigns node i its share of the slots, unless it has one, and connects it to the first node.
func (c *Cluster) join(ctx context.Context, i int) error {
	db := client(c.Nodes[i])
	defer db.Close()
	known, err := db.ClusterNodes(ctx).Result()
	if err != nil {
		return err
	}
	if !hasSlots(known) {
		first, next := i*slots/len(c.Nodes), (i+1)*slots/len(c.Nodes)
		if err := db.ClusterAddSlotsRange(ctx, first, next-1).Err(); err != nil {
			return err
		}
	}
	if i == 0 {
		return nil
	}
	return db.Do(ctx, "CLUSTER", "MEET", loopback, c.Nodes[0].port(0), c.Nodes[0].port(1)).Err()
}

// hasSlots reports whether the node that returned CLUSTER NODES has slots: the ninth word of its
// own line.
func hasSlots(nodes string) bool {
	for line := range strings.Lines(nodes) {
		if words := strings.Fields(line); len(words) > 2 && strings.Contains(words[2], "myself") {
			return len(words) > 8
		}
	}
	return false
}

// Await waits until every node reports that the cluster serves all keys.
func (c *Cluster) Await(ctx context.Context) error {
	for _, node := range c.Nodes {
		db := client(node)
		err := poll(ctx, func() (bool, error) {
			info, err := db.ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes))), nil
		})
		db.Close()
		if err != nil {
			return fmt.Errorf("the cluster is not whole: %w", err)
		}
	}
	return nil
}

// Stop stops all nodes.
func (c *Cluster) Stop(ctx context.Context) error {
	for _, node := range c.Nodes {
		if err := node.Stop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// URL returns the address for clients. The cluster must have been started.
func (c *Cluster) URL() string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr()
	}
	return "redis://" + strings.Join(addrs, ",")
}
