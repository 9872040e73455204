//go:build unix

package migration

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/move/migrate"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/services"
)

// Three processes move from one MariaDB database to another and from one S3 store to another. One
// is stopped while the others enter a phase, so that it serves requests one phase behind when it
// continues; meanwhile the precondition of the step names it. Another is killed while rows are
// copied, and the one that receives the request to switch is killed during the switch.
func TestCluster(t *testing.T) {
	t.Parallel()
	depth.Deep(t)
	from, _ := sqldbtest.Empty(t)
	to, _ := sqldbtest.Empty(t)
	name := "m" + servicetest.Unique()
	here, there := bucket(t, name+"/here"), bucket(t, name+"/there")
	kafka := servicetest.URL(t, servicetest.Kafka)
	old := []string{"--db", from, "--blobs", here, "--redis", redisAt(t, "4"), "--kafka", kafka}
	dir := t.TempDir()
	one := func(number string, roles string) settings {
		return settings{data: filepath.Join(dir, number), namespace: name, args: slices.Concat(old, []string{"--roles", roles}), apart: !strings.Contains(roles, "api")}
	}

	s := newSite(t, one("1", "api,worker"), one("2", "api,scheduler,worker"), one("3", "scheduler,worker"))
	people := s.people("ann", "bob", "eve")
	asked, behind, quiet := s.nodes[0], s.nodes[1], s.nodes[2]
	slow := people.begin()
	s.command("start", "--to-db", to, "--to-blobs", there, "--to-redis", redisAt(t, "5"))
	id := s.status().Instances[1].ID // they are in the order of their starts
	quiet.kill()
	people.workFor(20)
	for _, phase := range []migrate.Phase{migrate.DualWrite, migrate.ReadNew} {
		if s.status().Phase >= phase { // the machine is so slow that the sleeper counted as dead when the gate was tried
			continue
		}
		if phase == migrate.ReadNew {
			s.verify("--contents", "100")
		}
		s.waitForGate()
		behind.standStillWhile(people, "advance", func(_ string, err error) bool { return err == nil })
		if s.names(id) {
			people.workFor(20)
			behind.goOn()
		} else { // this machine is slow: it counts as dead, and ends itself when it finds out
			behind.kill()
			id = slices.MaxFunc(s.status().Instances, func(a, b migrate.Instance) int { return cmp.Compare(a.ID, b.ID) }).ID
		}
		people.workFor(20)
	}
	s.command("percent", "100")
	people.workFor(20)
	s.waitForGate()
	behind.standStillWhile(people, "advance", func(out string, err error) bool { // here it must come to be named, however slow the machine is
		return err != nil && strings.Contains(out, fmt.Sprintf("start %d ", id))
	})
	behind.goOn()
	s.waitForGate()
	s.strike("advance")
	asked.start()
	if st := s.status(); st.Phase == migrate.ReadNew {
		s.insist("advance")
	}
	people.workFor(20)
	behind.kill()
	people.finish(slow)
	s.finish(people)
	s.restart("--db", to, "--blobs", there, "--redis", redisAt(t, "5"), "--kafka", kafka)
	s.insist("drop")
	people.workFor(20)
	s.end(people)
	s.check(land(t, to, there))
}

// standStill stops the process with SIGSTOP, like a machine that is suspended. It does so while no
// request writes, because a process suspended during a write blocks the others.
func (n *node) standStill(p *people) {
	n.t.Helper()
	p.hush.Lock()
	defer p.hush.Unlock()
	process.Eventually(n.t, time.Minute, "nothing is left to bring", func() error {
		if lag := n.site.status().Lag; lag > 0 {
			return fmt.Errorf("%d changes", lag)
		}
		return nil
	})
	n.gone()
	n.signal(syscall.SIGSTOP)
	n.t.Cleanup(func() { n.signal(syscall.SIGCONT) }) // or it would not end with the test
	if err := services.AwaitPaused(n.t.Context(), n.server.PID()); err != nil {
		n.t.Fatal(err)
	}
}

// standStillWhile stops the process, requests a step and expects its outcome. If the stopped
// process blocks the others, it tries again.
func (n *node) standStillWhile(p *people, step string, wants func(out string, err error) bool) {
	n.t.Helper()
	process.Eventually(n.t, 2*time.Minute, step+" while an instance stands still", func() error {
		n.standStill(p)
		out, err := n.site.try(step)
		if wants(out, err) {
			return nil
		}
		n.signal(syscall.SIGCONT)
		n.back()
		return fmt.Errorf("%w %s", err, out)
	})
}

// goOn continues the process after requests have arrived at its socket, so that it serves them
// before it can notice anything else.
func (n *node) goOn() {
	n.t.Helper()
	n.back()
	process.Eventually(n.t, time.Minute, "people at the door", func() error {
		if n.inside.Load() == 0 {
			return errors.New("nobody")
		}
		return nil
	})
	n.signal(syscall.SIGCONT)
}

func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	if n.server == nil {
		return
	}
	if err := syscall.Kill(n.server.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		n.t.Error(err)
	}
}

// names reports whether the gate is closed because of one instance, which the status names, and
// finds that it cannot be passed then. An instance that is silent for 20 s counts as dead, and is
// not waited for.
func (s *site) names(id int64) bool {
	s.t.Helper()
	st, late := s.late()
	if !slices.Contains(late, id) {
		s.t.Logf("%v have not heard of epoch %d: %+v", late, st.Epoch, st.Instances)
		return false
	}
	out, err := s.try("advance")
	if err != nil && strings.Contains(out, fmt.Sprintf("start %d ", id)) {
		return true
	}
	if _, late = s.late(); slices.Contains(late, id) { // else it has come to count as dead since
		s.t.Errorf("a phase that instance %d has not heard of: %v %s", id, err, out)
	}
	return false
}

// late are the instances that have not heard of the epoch of the status.
func (s *site) late() (st migrate.Status, late []int64) {
	s.t.Helper()
	st = s.status()
	for _, in := range st.Instances {
		if in.Epoch < st.Epoch {
			late = append(late, in.ID)
		}
	}
	return st, late
}

// A process is suspended until it counts as dead, and the others continue without it to the last
// phase. When it wakes up, it answers the waiting requests from the current data or with an error.
// No write that it acknowledges is lost.
func TestAsleepThroughTheSwitch(t *testing.T) {
	t.Parallel()
	if os.Getenv("SMARTDRIVE_SOAK") == "" {
		t.Skip("SMARTDRIVE_SOAK is not set")
	}
	from, _ := sqldbtest.Empty(t)
	to, _ := sqldbtest.Empty(t)
	name := "m" + servicetest.Unique()
	dir := t.TempDir()
	shared := []string{"--blobs", bucket(t, name), "--redis", redisAt(t, "6")}
	old := slices.Concat([]string{"--db", from}, shared)
	s := newSite(t, settings{data: filepath.Join(dir, "1"), namespace: name, args: old}, settings{data: filepath.Join(dir, "2"), namespace: name, args: old})
	people := s.people("ann", "bob")
	asleep := s.nodes[1]
	s.command("start", "--to-db", to)
	s.insist("advance")
	s.verify()
	s.insist("advance")
	s.command("percent", "0")
	s.waitForGate()
	asleep.standStill(people)
	process.Eventually(t, 2*time.Minute, "it counts as dead", func() error {
		if n := len(s.status().Instances); n > 1 {
			return fmt.Errorf("%d instances", n)
		}
		return nil
	})
	s.insist("advance")
	s.finish(people)
	people.rest()

	if status, raw, err := s.admin.sendTo(s.nodes[0], "PUT", "/files/since", []byte("since then"), false); err != nil || status != http.StatusCreated {
		t.Fatalf("a file that was made meanwhile: %d %s %v", status, raw, err)
	}
	asleep.back()
	type answer struct {
		path   string // of a file that was sent; empty: one was asked for
		status int
		err    error
	}
	answers := make(chan answer)
	const each = 8
	for i := range each {
		go func() {
			status, _, err := s.admin.sendTo(asleep, "GET", "/nodes?path=/since", nil, false)
			answers <- answer{"", status, err}
		}()
		go func() {
			path := fmt.Sprintf("late %d", i)
			status, _, err := s.admin.sendTo(asleep, "PUT", "/files/"+url.PathEscape(path), []byte(path), false)
			answers <- answer{path, status, err}
		}()
	}
	process.Eventually(t, time.Minute, "requests at the door", func() error {
		if n := asleep.inside.Load(); n < 2*each {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	asleep.signal(syscall.SIGCONT)
	var sent []string
	for range 2 * each {
		a := <-answers
		t.Logf("%q: %d %v", a.path, a.status, a.err)
		switch {
		case a.err != nil || a.status >= http.StatusInternalServerError:
		case a.path == "" && a.status != http.StatusOK:
			t.Errorf("a file that was made meanwhile is not there: %d", a.status)
		case a.path != "" && a.status == http.StatusCreated:
			sent = append(sent, a.path)
		case a.path != "":
			t.Errorf("send %s: %d", a.path, a.status)
		}
	}
	for _, path := range sent {
		if status, raw, err := s.admin.sendTo(s.nodes[0], "GET", "/nodes?path="+url.QueryEscape("/"+path), nil, false); err != nil || status != http.StatusOK {
			t.Errorf("%s was taken, and is not there: %d %s %v", path, status, raw, err)
		}
	}
	asleep.crash()
	people.judge()
}
