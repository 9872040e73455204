package migrate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A process dies at each step of a switch, in either direction, and nobody else is there. It starts
// again, with either settings, serves from the one side that is the truth, and has every write that
// was answered.
func TestASwitchDiesAtEachStep(t *testing.T) {
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
					s.mustStart(settings(s)).stop(t) // which ends it, and dies, too
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

// dieSwitching ends the process at a step of the switch that it can make.
func dieSwitching(t *testing.T, p *process, at string) {
	t.Helper()
	work(t, p)
	verifyAgain(t, p)
	p.m.switcher.halt = func(step string) error {
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

// wantWhole writes for each account, and wants that number of such writes to be there, on both
// sides.
func wantWhole(t *testing.T, p *process, writes int) {
	t.Helper()
	accounts := accountsOf(t, p)
	touchAll(t, p.db, accounts, writes)
	for _, id := range accounts {
		var finished int
		must(t, p.db.QueryRow(t.Context(), "SELECT finished FROM ledgers WHERE account_id = ?", id).Scan(&finished))
		if finished != writes {
			t.Errorf("%d of %d writes are there", finished, writes)
		}
	}
	must(t, p.m.apply.now(t.Context()))
	v := p.m.known()
	if diff := cmp.Diff(dump(t, p.m, v.near), dump(t, p.m, v.other)); diff != "" {
		t.Errorf("the sides differ (-primary +secondary):\n%s", diff)
	}
}
