package migrate

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// A single process crashes at each step of a switch in either direction. It restarts with either
// settings, serves from the one primary, and has every acknowledged write.
func TestSwitchSurvivesCrashAtEachStep(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]func(s *site) *place{
		"the old settings": func(s *site) *place { return s.old },
		"the new settings": func(s *site) *place { return s.new },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite(t), onSQLite(t))
			p := s.mustStart(s.old)
			seed(t, p.db, 3)
			climb(t, p, ReadNew)
			p.stop(t)
			s.mend = time.Millisecond
			writes := 0
			for _, to := range []Phase{WriteNew, ReadNew} {
				for _, step := range []string{"fence", "fenced", "drained", "crossed"} {
					dieSwitching(t, s.mustStart(settings(s)), step)
					s.mustStart(settings(s)).stop(t) // completes the switch, and crashes, too
					p := s.mustStart(settings(s))
					if at := p.m.State().Phase; (at == to) != (step == "crossed") {
						t.Fatalf("it died at %q on the way to phase %d, and started again at phase %d", step, to, at)
					}
					writes++
					wantWhole(t, p, writes)
					p.stop(t)
				}
			}
		})
	}
}

// dieSwitching crashes the process at a step of the switch.
func dieSwitching(t *testing.T, p *process, at string) {
	t.Helper()
	work(t, p)
	verifyAgain(t, p)
	p.m.switcher.testHook = func(step string) error {
		if step != at {
			return nil
		}
		for _, f := range p.faults {
			f.FailAll("", nil)
		}
		return errDied
	}
	var err error
	if p.m.State().Phase == WriteNew {
		_, err = p.m.Rollback(t.Context(), WriteNew)
	} else {
		_, err = p.m.Advance(t.Context(), ReadNew)
	}
	if err == nil {
		t.Fatalf("it has not died at %q", at)
	}
	p.stop(t)
	for _, f := range p.faults {
		f.Clear()
	}
}

// wantWhole writes for each account and expects that number of writes on both sides.
func wantWhole(t *testing.T, p *process, writes int) {
	t.Helper()
	accounts := accountsOf(t, p)
	changeAll(t, p.db, accounts, writes)
	for _, id := range accounts {
		var finished int
		must(t, p.db.QueryRow(t.Context(), "SELECT finished FROM ledgers WHERE account_id = ?", id).Scan(&finished))
		if finished != writes {
			t.Errorf("%d of %d writes are there", finished, writes)
		}
	}
	must(t, p.m.apply.applyPending(t.Context()))
	v := p.m.currentSnapshot()
	if diff := cmp.Diff(dump(t, p.m, v.primary), dump(t, p.m, v.other)); diff != "" {
		t.Errorf("the sides differ (-primary +secondary):\n%s", diff)
	}
}

// The future primary becomes unreachable after the fencing and before it was asked: the fenced side
// is restored at once, for every process.
func TestOtherSideUnreachableDuringSwitch(t *testing.T) {
	t.Parallel()
	for _, at := range []Phase{ReadNew, WriteNew} {
		for _, step := range []string{"fence", "fenced", "drained"} {
			t.Run("from "+at.String()+", "+step, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, onSQLite(t), onSQLite(t))
				s.mend = time.Hour // no other process resolves it
				p, other := s.mustStart(s.old), s.mustStart(s.old)
				defer p.stop(t)
				defer other.stop(t)
				seed(t, p.db, 3)
				climb(t, p, at)
				work(t, other)
				away := []*sqldbtest.Faults{p.faults[s.new.at], other.faults[s.new.at]}
				if at == WriteNew {
					away = []*sqldbtest.Faults{p.faults[s.old.at], other.faults[s.old.at]}
				}
				failing(t, p, at, func(now string) error {
					if now == step {
						for _, f := range away {
							f.FailAll("", nil)
						}
					}
					return nil
				})
				for i, q := range []*process{p, other} {
					changeAll(t, q.db, accountsOf(t, q), 1+i)
					must(t, q.m.participant.runOnce(t.Context()))
				}
				for _, f := range away {
					f.Clear()
				}
				work(t, p)
				work(t, other)
				if now := p.m.State().Phase; now != at {
					t.Fatalf("at phase %d", now)
				}
				wantWhole(t, p, 3)
				p.m.switcher.testHook = func(string) error { return nil }
				if at == ReadNew {
					_, err := p.m.Advance(t.Context(), at)
					must(t, err)
				} else {
					verifyAgain(t, p)
					_, err := p.m.Rollback(t.Context(), at)
					must(t, err)
				}
				wantWhole(t, p, 4)
			})
		}
	}
}

// failing takes the step from a phase, which must fail.
func failing(t *testing.T, p *process, at Phase, halt func(step string) error) {
	t.Helper()
	p.m.switcher.testHook = halt
	take := p.m.Advance
	if at == WriteNew {
		take = p.m.Rollback
	}
	if _, err := take(t.Context(), at); err == nil {
		t.Fatal("nothing failed")
	}
}

// The fenced side is briefly unreachable, too, or its reply is lost: the process restores it at the
// next poll, and only once.
func TestPrimaryIsRestoredLater(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(f *sqldbtest.Faults){
		"away":            func(f *sqldbtest.Faults) { f.Fail(sqldbtest.Commit, 1, nil) },
		"a reply is lost": func(f *sqldbtest.Faults) { f.LoseReply(sqldbtest.Commit, 1, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite(t), onSQLite(t))
			s.mend = time.Hour
			p := s.mustStart(s.old)
			defer p.stop(t)
			seed(t, p.db, 3)
			climb(t, p, ReadNew)
			failing(t, p, ReadNew, func(step string) error {
				if step == "fenced" {
					p.faults[s.new.at].FailAll("", nil)
					fault(p.faults[s.old.at])
					return errDied
				}
				return nil
			})
			must(t, p.m.participant.runOnce(t.Context()))
			changeAll(t, p.db, accountsOf(t, p), 1)
			if p.m.switcher.ownFence != nil {
				t.Error("it would take the role back again")
			}
		})
	}
}

// The other side was asked to become primary, and the reply is lost: the fenced side is not
// restored alone. The other side has become primary, and is used when it is reachable.
func TestUncertainSwitchIsNotRestored(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer p.stop(t)
	seed(t, p.db, 3)
	climb(t, p, ReadNew)
	there := p.faults[s.new.at]
	failing(t, p, ReadNew, func(step string) error {
		if step == "drained" {
			there.LoseReply(sqldbtest.Commit, 1, nil)
			there.Fail(sqldbtest.Query, 1, errors.New("away"))
		}
		return nil
	})
	have, err := readRecord(t.Context(), p.m.home.DB, "")
	if err != nil || have.Role != fenced {
		t.Fatalf("the side that was fenced is %+v, %v", have, err)
	}
	there.Clear()
	p.m.switcher.takeoverAfter = 0
	must(t, p.m.participant.runOnce(t.Context()))
	work(t, p)
	if at := p.m.State().Phase; at != WriteNew {
		t.Errorf("at phase %d", at)
	}
	wantWhole(t, p, 1)
}
