package migration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/move/migrate"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

// A server is killed on each way back, while it leaves the old side, when it has, while that is
// dropped, and while it forgets the move.
func TestKilledOnEachWayBackAndInTheLastPhase(t *testing.T) {
	t.Parallel()
	depth.Deep(t)
	needSignals(t)
	rounds := 1
	if os.Getenv("SMARTDRIVE_SOAK") != "" {
		rounds = 30
	}
	db, _ := sqldbtest.Empty(t)
	name := "m" + servicetest.Unique()
	contents, redis := bucket(t, name), redisAt(t, "3")
	start := []string{"start", "--to-db", db, "--to-blobs", contents, "--to-redis", redis}

	s := newSite(t, settings{data: filepath.Join(t.TempDir(), "old"), namespace: name})
	people := s.people("ann", "bob")
	for range rounds {
		s.command(start...)
		s.climb(people, 1, nil)
		for phase := migrate.WriteNew; phase >= migrate.Fill; phase-- {
			if phase == migrate.WriteNew { // the old side becomes the truth again
				s.verify()
				s.waitForGate()
			}
			s.strike("rollback")
			s.start()
			s.goBack(phase - 1)
			people.workFor(10)
		}
	}
	s.command(start...)
	s.climb(people, 1, nil)
	s.verify()
	s.waitForGate()
	s.strike("finish")
	if err := s.nodes[0].tryStart(); err == nil { // it had not left the old side yet
		s.insist("finish")
		people.workFor(10)
		s.nodes[0].crash()
	}
	s.wantRefused()
	s.restart("--db", db, "--redis", redis, "--blobs", contents)
	people.workFor(10)
	s.kill()
	if st := s.status(); st.Phase != migrate.NewOnly {
		t.Errorf("started again at phase %d", st.Phase)
	}
	process.Eventually(t, 2*time.Minute, "the old side may be dropped", func() error { // for 20 s whoever was killed counts as alive
		if out, err := s.try("drop-old", "--early"); err != nil {
			return errors.New(out)
		}
		return nil
	})
	people.workFor(10)
	s.kill()
	process.Eventually(t, time.Minute, "the old side is dropped", func() error {
		if old := s.status().Old; old == nil || old.State != "dropped" {
			return fmt.Errorf("%+v", old)
		}
		return nil
	})
	s.strike("drop")
	s.start()
	if st := s.status(); st.State == "running" {
		s.command("drop")
	}
	people.workFor(10)
	s.end(people)
	s.check(land(t, db, contents))
}

// strikeWithin is about as long as the steps take.
const strikeWithin = 80 * time.Millisecond

// strike requests a step and kills the first server at a random moment of it.
func (s *site) strike(step string) {
	s.t.Helper()
	answered := make(chan error, 1)
	go func() {
		status, raw, err := s.admin.sendTo(s.nodes[0], "POST", "/admin/migration/"+step, []byte("{}"), true)
		if err == nil && status >= 300 {
			err = fmt.Errorf("%d %s", status, raw)
		}
		answered <- err
	}()
	late := time.NewTimer(rand.N(strikeWithin))
	defer late.Stop()
	var err error
	select {
	case <-late.C:
		s.nodes[0].crash()
		err = <-answered
	case err = <-answered:
		s.nodes[0].crash()
	}
	if err != nil && !errors.Is(err, errCut) {
		s.t.Logf("%s, before the server was killed: %v", step, err)
	}
	s.t.Logf("killed in %s: %t", step, errors.Is(err, errCut))
}

// goBack requests the way back until the migration has reached the phase.
func (s *site) goBack(to migrate.Phase) {
	s.t.Helper()
	process.Eventually(s.t, 2*time.Minute, fmt.Sprintf("back to phase %d", to), func() error {
		st := s.status()
		switch {
		case st.State != "running":
			if to > migrate.Freeze {
				s.t.Fatalf("on the way back to phase %d nothing moves any more", to)
			}
			return nil
		case st.Phase == to && to > migrate.Freeze:
			return nil
		}
		out, _ := s.try("rollback") // where it went is looked at
		return fmt.Errorf("from phase %d: %s", st.Phase, out)
	})
}
