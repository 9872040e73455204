package rig

import (
	"context"
	"strings"
	"testing"
	"time"

	"smartdrive/test/services"
)

// Component is a service of a cluster.
type Component struct {
	Name string
	Link *Link // what instances reach it through; nil for the nodes of a Redis Cluster

	server *services.Server
}

// patience is how long starting and ending may take. Kafka starts within ten seconds on a quiet
// machine, and not within a minute on one that several other tests load.
const patience = 5 * time.Minute

// Direct is its own address, for the test.
func (c *Component) Direct() string { return c.server.Addr() }

// URL is where the test finds it, in the form of internal/testkit/servicetest.
func (c *Component) URL() string { return c.server.URL() }

func (c *Component) throughLink() string {
	return strings.Replace(c.URL(), c.Direct(), c.Link.Addr(), 1)
}

// Kill ends it at once, as SIGKILL does. What it had not written is lost.
func (c *Component) Kill(t testing.TB) { c.do(t, "kill", c.server.Kill) }

// Stop ends it in order.
func (c *Component) Stop(t testing.TB) { c.do(t, "stop", c.server.Stop) }

// Wipe ends it at once and forgets all its data; Start begins with nothing. A wiped S3 server has
// its bucket, and a wiped database its user.
func (c *Component) Wipe(t testing.TB) { c.do(t, "wipe", c.server.Wipe) }

// Start starts it on the data that is there and returns how long it took until it served.
func (c *Component) Start(t testing.TB) time.Duration {
	t.Helper()
	began := time.Now()
	c.do(t, "start", c.server.Start)
	return time.Since(began)
}

// Pause stops it without ending it: connections stay open, new ones are taken by the system, and
// nothing answers.
func (c *Component) Pause(t testing.TB) {
	t.Helper()
	c.do(t, "pause", c.server.Pause)
}

// Resume lets it go on.
func (c *Component) Resume(t testing.TB) {
	t.Helper()
	c.do(t, "resume", func(context.Context) error { return c.server.Resume() })
}

func (c *Component) do(t testing.TB, what string, step func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := step(ctx); err != nil {
		t.Fatalf("%s %s: %v", what, c.Name, err)
	}
}

// end ends it when the test is over.
func (c *Component) end(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.server.Kill(ctx); err != nil {
		t.Errorf("end %s: %v", c.Name, err)
	}
}
