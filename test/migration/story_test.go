// Package migration moves real installations to other engines while users work in them. Files are
// uploaded, read, renamed and deleted, and an upload begins on the old side and ends on the new
// one. It contains only tests.
//
//	TestThereAndBack                            SQLite and a directory to MariaDB and S3, killed in each phase, and back
//	TestOneKindAtATime                          rows alone, contents alone, on one installation
//	TestKilledOnEachWayBackAndInTheLastPhase    killed within the steps
//	TestCluster                                 three processes; one is suspended, others are killed
//	TestAsleepThroughTheSwitch                  make soak: a suspended process continues after the switch
//
// At the end of each test every file is read, every balance compared, and the independent checker
// runs on the resulting data directory.
package migration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// The way there is from SQLite and a directory to MariaDB and S3, with a kill in each phase; the
// way back ends in another directory, which the independent checker judges.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	needSignals(t)
	db, _ := sqldbtest.Empty(t)
	name := "m" + servicetest.Unique()
	contents, redis := bucket(t, name), redisAt(t, "1")

	old := settings{data: filepath.Join(t.TempDir(), "old"), namespace: name}
	back := filepath.Join(t.TempDir(), "back")

	s := newSite(t, old)
	people := s.people("ann", "bob", "eve")
	people.workFor(200) // what requests take where nothing moves
	t.Logf("before any move the longest request took %s", people.longestSince())
	s.move(people, func(int) { s.kill() }, "--to-db", db, "--to-blobs", contents, "--to-redis", redis)
	s.wantRefused()
	s.restart("--db", db, "--redis", redis, "--blobs", contents)
	s.command("drop")
	s.move(people, nil, "--to-db", back, "--to-blobs", back)
	s.stop()
	s.nodes[0].now.data = back
	s.restart()
	s.command("drop")
	s.end(people)
	s.check(back)
}

// move takes a migration through all its phases. disturb is called at the beginning of each of the
// first four, if there is one.
func (s *site) move(p *people, disturb func(phase int), to ...string) {
	s.t.Helper()
	slow := p.begin() // an upload that is as long as the move
	s.command(append([]string{"start"}, to...)...)
	s.climb(p, 1, disturb)
	p.finish(slow)
	s.finish(p)
}

// climb goes from a phase to the fourth.
func (s *site) climb(p *people, from int, disturb func(phase int)) {
	s.t.Helper()
	for phase := from; phase <= 4; phase++ {
		if disturb != nil {
			disturb(phase)
		}
		p.workFor(20)
		if phase == 2 {
			s.verify("--contents", "100")
		}
		if phase == 3 {
			s.command("percent", "100")
			p.workFor(20)
		}
		if phase == 4 {
			return
		}
		before := p.longest.Swap(0)
		s.insist("advance")
		p.workFor(5)
		if phase == 3 {
			s.pauses = append(s.pauses, rounded(p.longest.Load()))
		}
		p.longest.Store(max(before, p.longest.Load()))
	}
}

// finish compares both sides once more, and leaves the old one.
func (s *site) finish(p *people) {
	s.t.Helper()
	s.verify()
	s.insist("finish")
	p.workFor(10)
}

// end judges what people have, and stops all servers.
func (s *site) end(p *people) {
	s.t.Helper()
	p.rest()
	p.judge()
	s.t.Logf("%d requests, %d of them cut off by kills; the longest one that no kill has met took %s, in the switches %s",
		p.requests.Load(), p.cut.Load(), p.longestSince(), s.pauses)
	s.stop()
}

// check runs the independent checker.
func (s *site) check(args ...string) {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), process.Build(s.t, "example.org/smartdrive/test/check"), args...).CombinedOutput()
	s.t.Logf("checker: %s", out)
	if err != nil {
		s.t.Errorf("checker: %v", err)
	}
}

// wantRefused stops the server, and finds that it does not start with the settings of the side that
// was left.
func (s *site) wantRefused() {
	s.t.Helper()
	s.stop()
	with := s.nodes[0].now
	cmd := exec.CommandContext(s.t.Context(), s.binary, append([]string{"serve", "--data", with.data, "--listen", "127.0.0.1:0", "--namespace", with.namespace}, with.args...)...)
	cmd.Env = append(process.Environ(), "SMARTDRIVE_ADMIN_PASSWORD="+password)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "has moved") {
		s.t.Errorf("a start with the old settings: %v\n%s", err, out)
	}
}
