// Package rig runs a cluster for one test: MariaDB, Redis, Kafka and an S3 server, which the test
// may kill, pause, empty and restart, a faulty network before each of them, and instances of
// SmartDrive with chosen roles. It asserts nothing by itself.
//
//	c := rig.New(t, rig.Options{})
//	a := c.Site(t, "api").Start(t)                  // instances are those of test/system/rig, with all its users and requests
//	b := c.Site(t, "scheduler,worker").Start(t)
//	c.Redis.Kill(t)
//	c.Redis.Start(t)
//	c.MySQL.Link.Cut(t)
//	c.MySQL.Link.Heal(t)
//	c.Kafka.Pause(t)
//	c.Kafka.Resume(t)
//
// Instances reach each component through its Link, a proxy. The test itself uses Direct, which
// bypasses the faults.
//
// "make services" installs the programs. Without them a test is skipped, or fails if
// SMARTDRIVE_TEST_REQUIRE demands it. All processes listen on loopback and end with the test.
package rig

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"example.org/smartdrive/internal/testkit/servicetest"
	system "example.org/smartdrive/test/system/rig"

	"example.org/smartdrive/test/services"
)

// Options select the components of a cluster.
type Options struct {
	// NoKafka leaves out Kafka: handlers of timers run in the scheduler's process, and events
	// come from the outbox.
	NoKafka bool
	// RedisCluster replaces Redis by a cluster of three masters; Cluster.Redis is the first.
	// Clients connect to the nodes' own addresses, so these have no Link.
	RedisCluster bool
	// RedisSentinel replaces Redis by a master, a replica and three Sentinels. Cluster.Redis is
	// the first master, and RedisNodes are all Redis servers. These have no Link either.
	RedisSentinel bool
}

// Cluster holds the components that the instances share.
type Cluster struct {
	MySQL, Redis, S3 *Component
	Kafka            *Component   // nil without Kafka
	RedisNodes       []*Component // nodes of a Redis Cluster, or the servers behind Sentinels; else empty

	dir       string
	sentinels *services.Sentinels
}

// New starts all components in parallel and waits until they serve. They end with the test.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	root, err := services.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	tools := services.Open(root, nil)
	c := &Cluster{dir: system.Dir(t)}
	c.assemble(t, tools, o)
	c.start(t, o)
	return c
}

// assemble creates the components without starting them. It skips the test if a program is missing.
func (c *Cluster) assemble(t testing.TB, tools *services.Tools, o Options) {
	t.Helper()
	durable := services.Options{Durable: true, Bound: true}
	c.MySQL = c.component(t, servicetest.MySQL, func(dir string) (*services.Server, error) {
		return tools.MySQL(t.Context(), dir, durable)
	})
	c.S3 = c.component(t, servicetest.S3, func(dir string) (*services.Server, error) {
		return tools.S3(t.Context(), dir, durable)
	})
	switch {
	case o.RedisSentinel:
		var err error
		if c.sentinels, err = tools.RedisSentinel(t.Context(), filepath.Join(c.dir, "redis"), durable); err != nil {
			servicetest.Missing(t, servicetest.Redis, err.Error())
		}
		for _, server := range c.sentinels.Servers() {
			c.RedisNodes = append(c.RedisNodes, &Component{Name: "redis", server: server})
		}
		c.Redis = c.RedisNodes[0]
	case o.RedisCluster:
		nodes, err := tools.RedisCluster(t.Context(), filepath.Join(c.dir, "redis"), durable)
		if err != nil {
			servicetest.Missing(t, servicetest.RedisCluster, err.Error())
		}
		for _, node := range nodes.Nodes {
			c.RedisNodes = append(c.RedisNodes, &Component{Name: "redis", server: node})
		}
		c.Redis = c.RedisNodes[0]
	default:
		c.Redis = c.component(t, servicetest.Redis, func(dir string) (*services.Server, error) {
			return tools.Redis(t.Context(), dir, durable)
		})
	}
	if !o.NoKafka {
		link := newLink(t)
		c.Kafka = c.component(t, servicetest.Kafka, func(dir string) (*services.Server, error) {
			return tools.Kafka(t.Context(), dir, services.Options{Bound: true, Advertised: link.Addr()})
		})
		c.Kafka.Link = link
	}
}

// component returns a component in its own directory, or skips the test if its program is missing.
func (c *Cluster) component(t testing.TB, s servicetest.Service, get func(dir string) (*services.Server, error)) *Component {
	t.Helper()
	server, err := get(filepath.Join(c.dir, string(s)))
	if err != nil {
		servicetest.Missing(t, s, err.Error())
	}
	return &Component{Name: string(s), server: server}
}

// start starts the components and opens their links.
func (c *Cluster) start(t testing.TB, o Options) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wait sync.WaitGroup
	for _, one := range c.components() {
		t.Cleanup(func() { one.end(t) })
		if c.sentinels != nil && one.Name == "redis" {
			continue // started below, in the required order
		}
		wait.Go(func() {
			if err := one.server.Start(ctx); err != nil {
				t.Errorf("start %s: %v", one.Name, err)
			}
		})
	}
	if c.sentinels != nil {
		wait.Go(func() {
			if err := c.sentinels.Start(ctx); err != nil {
				t.Errorf("start Redis with Sentinels: %v", err)
			}
		})
	}
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if o.RedisCluster {
		c.join(t, ctx)
	}
	for _, one := range []*Component{c.MySQL, c.Redis, c.S3, c.Kafka} {
		if one == nil || len(c.RedisNodes) > 0 && one == c.Redis {
			continue
		}
		if one.Link == nil {
			one.Link = newLink(t)
		}
		one.Link.open(t, one.Direct())
	}
}

// join starts the nodes as a Redis Cluster.
func (c *Cluster) join(t testing.TB, ctx context.Context) { //nolint:revive // t is first in tests
	t.Helper()
	nodes := &services.Cluster{}
	for _, node := range c.RedisNodes {
		nodes.Nodes = append(nodes.Nodes, node.server)
	}
	if err := nodes.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) components() []*Component {
	all := []*Component{c.MySQL, c.S3}
	if c.Kafka != nil {
		all = append(all, c.Kafka)
	}
	if len(c.RedisNodes) > 0 {
		return append(all, c.RedisNodes...)
	}
	return append(all, c.Redis)
}

// Site returns a new, not yet started instance of this cluster with its own directory and the given
// roles, such as "api,worker". Empty roles mean all roles.
func (c *Cluster) Site(t testing.TB, roles string, args ...string) *system.Site {
	t.Helper()
	site := system.New(t, args...)
	site.Env = c.settings()
	if roles != "" {
		site.Env = append(site.Env, "SMARTDRIVE_ROLES="+roles)
	}
	return site
}

// settings returns the configuration of the instances as environment variables, so that
// administrator commands use it as well.
func (c *Cluster) settings() []string {
	env := []string{
		"SMARTDRIVE_DB=" + c.MySQL.throughLink() + "smartdrive",
		"SMARTDRIVE_BLOBS=" + c.S3.throughLink(),
	}
	switch {
	case c.sentinels != nil:
		env = append(env, "SMARTDRIVE_REDIS="+c.sentinels.URL())
	case len(c.RedisNodes) > 0:
		addrs := make([]string, len(c.RedisNodes))
		for i, node := range c.RedisNodes {
			addrs[i] = node.Direct()
		}
		env = append(env, "SMARTDRIVE_REDIS=redis://"+strings.Join(addrs, ",")+"?cluster=true")
	default:
		env = append(env, "SMARTDRIVE_REDIS="+c.Redis.throughLink())
	}
	if c.Kafka != nil {
		env = append(env, "SMARTDRIVE_KAFKA="+c.Kafka.throughLink())
	}
	return env
}
