package rig

import (
	"context"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/test/services"
)

// Component is a service of a cluster.
type Component struct {
	Name string
	Link *Link // proxy that instances connect through; nil with Redis Cluster or Sentinels

	server *services.Server
}

// patience bounds starting and stopping. Kafka starts within ten seconds on an idle machine, but
// may need more than a minute under load.
const patience = 5 * time.Minute

// Direct returns the component's own address, without its Link.
func (c *Component) Direct() string { return c.server.Addr() }

// URL returns the component's own address in the form of internal/testkit/servicetest.
func (c *Component) URL() string { return c.server.URL() }

// throughLink returns URL with the address of the Link.
func (c *Component) throughLink() string {
	return strings.Replace(c.URL(), c.Direct(), c.Link.Addr(), 1)
}

// Kill ends the process with SIGKILL; unwritten data is lost.
func (c *Component) Kill(t testing.TB) { c.do(t, "kill", c.server.Kill) }

// Stop shuts the process down in order.
func (c *Component) Stop(t testing.TB) { c.do(t, "stop", c.server.Stop) }

// Wipe kills the process and deletes its data, so that Start begins empty. The bucket of a wiped S3
// server and the user of a wiped database exist again.
func (c *Component) Wipe(t testing.TB) { c.do(t, "wipe", c.server.Wipe) }

// Start starts the component on its existing data, waits until it serves and returns how long that
// took.
func (c *Component) Start(t testing.TB) time.Duration {
	t.Helper()
	began := time.Now()
	c.do(t, "start", c.server.Start)
	return time.Since(began)
}

// Pause suspends the process: connections stay open, the system accepts new ones, and nothing
// responds.
func (c *Component) Pause(t testing.TB) {
	t.Helper()
	c.do(t, "pause", c.server.Pause)
}

// Resume continues a paused process.
func (c *Component) Resume(t testing.TB) {
	t.Helper()
	c.do(t, "resume", func(context.Context) error { return c.server.Resume() })
}

// do runs a step within patience; what names it in a failure.
func (c *Component) do(t testing.TB, what string, step func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := step(ctx); err != nil {
		t.Fatalf("%s %s: %v", what, c.Name, err)
	}
}

// end kills the component at the end of the test.
func (c *Component) end(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.server.Kill(ctx); err != nil {
		t.Errorf("end %s: %v", c.Name, err)
	}
}
