package migration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/move/migrate"
	"example.org/smartdrive/test/process"
)

// password is the administrator's, and everybody's.
const password = process.Password

// settings are how a server is started.
type settings struct {
	data, namespace string
	args            []string
	apart           bool // people do not come here: it answers no requests of theirs
}

// with is the same directory with other flags.
func (s settings) with(args ...string) settings {
	s.args = args
	return s
}

// site is one installation: a server, or several that share all.
type site struct {
	t      *testing.T
	binary string
	nodes  []*node
	admin  *person
	pauses []time.Duration // the longest request within each switch
}

// node is one of its servers.
type node struct {
	*site
	now    settings
	server *process.Server
	url    string
	base   atomic.Pointer[string] // nil while people should not come
	turns  atomic.Int64           // raised when a server ends or stands still, and when it goes on
	inside atomic.Int64           // requests that are on their way here
}

// newSite starts the servers one after the other.
func newSite(t *testing.T, all ...settings) *site {
	t.Helper()
	s := &site{t: t, binary: process.Binary(t)}
	for _, one := range all {
		n := &node{site: s, now: one}
		s.nodes = append(s.nodes, n)
		n.start()
		t.Cleanup(n.stop)
	}
	return s
}

const startTime, stopTime = 3 * time.Minute, 3 * time.Minute // of a server on a machine that is busy with other tests

func (n *node) start() {
	n.t.Helper()
	if err := n.tryStart(); err != nil {
		n.t.Fatalf("the server is not ready: %v", err)
	}
}

// tryStart leaves no server behind that is not ready.
func (n *node) tryStart() (err error) {
	n.server, err = process.Start(process.Options{
		Binary: n.binary, Data: n.now.data, Listen: "127.0.0.1:0", Args: append([]string{"--namespace", n.now.namespace}, n.now.args...),
		Env: []string{"SMARTDRIVE_ADMIN_PASSWORD=" + password}, Log: n.t.Output(),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), startTime)
	defer cancel()
	if n.url, err = n.server.Ready(ctx); err != nil {
		n.server.Kill()
		n.server = nil
		return err
	}
	n.back()
	return nil
}

// back lets people come.
func (n *node) back() {
	base := n.url
	n.base.Store(&base)
	n.turns.Add(1)
}

// gone directs no more requests to the node. A request that has read the old address has read the
// old turn before, and notices that turns was raised.
func (n *node) gone() {
	n.base.Store(nil)
	n.turns.Add(1)
}

// kill ends the server as a crash does, and starts it again.
func (n *node) kill() {
	n.t.Helper()
	n.crash()
	n.start()
}

func (n *node) crash() {
	n.gone()
	n.server.Kill()
	n.server = nil
}

// stop ends the server as an operator does.
func (n *node) stop() {
	if n.server == nil {
		return
	}
	n.gone()
	if code, err := n.server.Stop(stopTime); err != nil || code != 0 {
		n.t.Errorf("the server ends with %d, %v", code, err)
	}
	n.server = nil
}

// restart stops the server, and starts it with other flags.
func (n *node) restart(args ...string) {
	n.t.Helper()
	n.stop()
	n.now = n.now.with(args...)
	n.start()
}

func (s *site) start() { s.t.Helper(); s.nodes[0].start() }
func (s *site) kill()  { s.t.Helper(); s.nodes[0].kill() }

func (s *site) stop() {
	for _, n := range s.nodes {
		n.stop()
	}
}

// restart gives all servers other flags, one after the other.
func (s *site) restart(args ...string) {
	s.t.Helper()
	for _, n := range s.nodes {
		n.restart(slices.Concat(args, n.roles())...)
	}
}

// roles returns the role flags of this server.
func (n *node) roles() []string {
	if i := slices.Index(n.now.args, "--roles"); i >= 0 {
		return n.now.args[i : i+2]
	}
	return nil
}

// door returns one of the servers that accept requests.
func (s *site) door() *node {
	for _, i := range rand.Perm(len(s.nodes)) {
		n := s.nodes[i]
		if n.base.Load() != nil && !n.now.apart {
			return n
		}
	}
	return nil
}

// try runs "smartdrive migrate" at the first server.
func (s *site) try(args ...string) (string, error) { return s.nodes[0].try(args...) }

func (n *node) try(args ...string) (string, error) {
	args = append(append([]string{"migrate"}, args...), "--data", n.now.data, "--namespace", n.now.namespace)
	for i := 0; i+1 < len(n.now.args); i += 2 {
		if n.now.args[i] != "--roles" { // which the commands of an administrator do not have
			args = append(args, n.now.args[i:i+2]...)
		}
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(n.t.Context(), n.binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = process.Environ(), &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (s *site) command(args ...string) {
	s.t.Helper()
	if out, err := s.try(args...); err != nil {
		s.t.Fatalf("migrate %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// verify begins a comparison of what moves.
func (s *site) verify(args ...string) {
	s.t.Helper()
	s.command(append([]string{"verify"}, args...)...)
}

// patience bounds each wait. The users write as fast as they get replies, and a change waits until
// all earlier changes are applied.
const patience = 5 * time.Minute

// insist takes a step as soon as its gate is open.
func (s *site) insist(step string) {
	s.t.Helper()
	process.Eventually(s.t, patience, "migrate "+step, func() error {
		if err := s.gate(); err != nil {
			return err
		}
		if out, err := s.try(step); err != nil {
			return errors.New(out)
		}
		return nil
	})
}

// waitForGate waits until the next phase may be entered.
func (s *site) waitForGate() {
	s.t.Helper()
	process.Eventually(s.t, patience, "the gate", s.gate)
}

// gate is an error while the next phase may not be entered.
func (s *site) gate() error {
	for _, g := range s.status().Gate {
		if !g.OK {
			return fmt.Errorf("%s: %s", g.Name, g.Detail)
		}
	}
	return nil
}

// status returns the migration's status from the first server.
func (s *site) status() (st migrate.Status) {
	s.t.Helper()
	process.Eventually(s.t, time.Minute, "the status of the migration", func() error {
		status, raw, err := s.admin.sendTo(s.nodes[0], "GET", "/admin/migration", nil, false)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, raw)
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, &st)
	})
	return st
}
