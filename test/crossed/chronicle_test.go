package crossed

import (
	"context"
	"math"
	"testing"

	"github.com/anishathalye/porcupine"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// chronicle has the database write down each state of each ledger, in the transaction that makes
// it.
func chronicle(t *testing.T, db *sqldb.DB) {
	t.Helper()
	body := "INSERT INTO chronicle VALUES (NEW.account_id, NEW.version, NEW.total, NEW.finished, NEW.unfinished, NEW.reserved)"
	trigger := "CREATE TRIGGER chronicled AFTER UPDATE ON ledgers FOR EACH ROW " + body
	if db.Dialect() == sqldb.SQLite {
		trigger = "CREATE TRIGGER chronicled AFTER UPDATE ON ledgers BEGIN " + body + "; END"
	}
	for _, s := range []string{
		"CREATE TABLE chronicle (account_id CHAR(36), version BIGINT, total BIGINT, finished BIGINT, unfinished BIGINT, reserved BIGINT)", trigger,
	} {
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, s)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// page is a state of the ledger as it was written down.
type page struct {
	version                               int64
	total, finished, unfinished, reserved drive.ByteSize
}

func (p page) used() drive.ByteSize { return p.finished + p.unfinished + p.reserved }

// since returns the change of the ledger between two pages of the history.
func (p page) since(was page) deed {
	switch f, u, r := p.finished-was.finished, p.unfinished-was.unfinished, p.reserved-was.reserved; {
	case p.total != was.total && f == 0 && u == 0 && r == 0:
		return deed{set, p.total}
	case r > 0 && f == 0 && u == 0:
		return deed{begun, r}
	case r < 0 && f == -r && u == 0:
		return deed{completed, f}
	case r < 0 && f == 0 && (u == 0 || u == -r):
		return deed{cancelled, -r}
	case u < 0 && f == 0 && r == 0:
		return deed{cleared, -u}
	case f < 0 && u == 0 && r == 0:
		return deed{deleted, -f}
	}
	return deed{"something else", 0}
}

// history returns all operations, recorded or refused. It fails the test if an operation was
// recorded twice or never requested, or if an acknowledged one is missing.
func (c *crowd) history(t *testing.T) (all []porcupine.Operation) {
	t.Helper()
	rows, err := c.in[0].db.Query(t.Context(), `SELECT version, total, finished, unfinished, reserved FROM chronicle
		WHERE account_id = ? ORDER BY version`, c.space.ID)
	pages, err := sqldb.Scan(rows, err, func(p *page, scan func(...any) error) error {
		return scan(&p.version, &p.total, &p.finished, &p.unfinished, &p.reserved)
	})
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	refused := map[int64]int{} // by the version that was seen
	for _, s := range c.sent {
		if !s.out.ok {
			refused[s.out.version]++
		}
	}
	add := func(in step, out moved, at during) {
		all = append(all, porcupine.Operation{ClientId: len(all), Input: in, Call: at.call, Output: out, Return: at.end})
	}
	was, count := page{version: pages[0].version - 1, total: c.total}, map[string]int{}
	for _, p := range pages {
		d := p.since(was)
		at, asked := c.acked[d]
		if !asked || p.version != was.version+1 {
			t.Fatalf("%v was done from %+v to %+v, and nobody has asked for it once more", d, was, p)
		}
		delete(c.acked, d)
		count[d.what]++
		add(step{d, p.used() - was.used()}, moved{ok: true, version: p.version - pages[0].version + 1, used: p.used(), waits: refused[was.version]}, at)
		was = p
	}
	for d := range c.acked {
		if d.what != cleared { // nothing had arrived
			t.Errorf("%v was acknowledged, and not done", d)
		}
	}
	for _, s := range c.sent {
		if !s.out.ok {
			count["refused"]++
			add(step{deed{begun, s.size}, s.size}, moved{version: s.out.version - pages[0].version + 1, available: s.out.available}, s.at)
		}
	}
	t.Logf("%v", count)
	for _, what := range []string{begun, completed, cancelled, cleared, deleted, set, "refused"} {
		if count[what] == 0 {
			t.Errorf("nothing in the history is %q: it shows too little", what)
		}
	}
	return all
}

// step is a requested operation and the bytes that it may add to the sum.
type step struct {
	deed
	growth drive.ByteSize
}

// moved is the outcome of a step.
type moved struct {
	ok        bool
	version   int64          // that was made, or that a refusal saw
	used      drive.ByteSize // by then
	waits     int            // how many were refused before it, by the version that it changed
	available drive.ByteSize // by a refusal
}

// spaceState is the state of the sequential ledger. Owed bytes are deleted but still on the disk.
type spaceState struct {
	total, used, owed drive.ByteSize
	version           int64
	refused           int // by this version
}

func (s spaceState) available() drive.ByteSize {
	left := s.total - s.used
	return max(0, min(left, left+s.total-s.owed))
}

// spaceLedger is the model of a ledger that executes one operation at a time. A change waits for
// the operations that the version before it refused. This excludes no valid order and lets
// porcupine find one for a thousand concurrent operations.
func spaceLedger(total drive.ByteSize) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return spaceState{total: total} },
		Step: func(was, input, output any) (bool, any) {
			s, in, out := was.(spaceState), input.(step), output.(moved)
			fits := in.growth <= s.available()
			if !out.ok {
				next := s
				next.refused++
				return !fits && out.version == s.version && out.available == s.available(), next
			}
			if in.growth > 0 && !fits || s.refused < out.waits {
				return false, s
			}
			next := spaceState{s.total, s.used + in.growth, s.owed, s.version + 1, 0}
			switch in.what {
			case set:
				next.total = in.of
			case deleted:
				next.owed += in.of
			}
			return out.version == next.version && out.used == next.used, next
		},
		Equal: func(a, b any) bool { return a == b },
	}
}

// The check can fail.
func TestOverdrawnSpaceIsRejected(t *testing.T) {
	t.Parallel()
	op := func(in step, out moved, at during) porcupine.Operation {
		return porcupine.Operation{ClientId: int(at.call), Input: in, Call: at.call, Output: out, Return: at.end}
	}
	taken := func(size, used drive.ByteSize, version int64, at during) porcupine.Operation {
		return op(step{deed{begun, size}, size}, moved{ok: true, version: version, used: used}, at)
	}
	refused := func(size, available drive.ByteSize, version int64, at during) porcupine.Operation {
		return op(step{deed{begun, size}, size}, moved{version: version, available: available}, at)
	}
	lowered := op(step{deed{set, 5}, 0}, moved{ok: true, version: 2, used: 6}, during{3, 4})
	gone := op(step{deed{deleted, 6}, -6}, moved{ok: true, version: 2}, during{3, 4})
	for what, c := range map[string]struct {
		legal bool
		all   []porcupine.Operation
	}{
		"two of 6 bytes in 10":              {false, []porcupine.Operation{taken(6, 6, 1, during{1, 5}), taken(6, 12, 2, during{2, 6})}},
		"one of 6 bytes in 10, one refused": {true, []porcupine.Operation{taken(6, 6, 1, during{1, 5}), refused(6, 4, 1, during{2, 6})}},
		"refused though it fits":            {false, []porcupine.Operation{taken(6, 6, 1, during{1, 2}), refused(4, 4, 1, during{3, 4})}},
		"taken after the total was lowered": {false, []porcupine.Operation{taken(6, 6, 1, during{1, 2}), lowered, taken(1, 7, 3, during{5, 6})}},
		"refused after it was lowered":      {true, []porcupine.Operation{taken(6, 6, 1, during{1, 2}), lowered, refused(1, 0, 2, during{5, math.MaxInt64})}},
		"taken after a deletion":            {true, []porcupine.Operation{taken(6, 6, 1, during{1, 2}), gone, taken(10, 10, 3, during{5, 6})}},
		"the later one came first":          {false, []porcupine.Operation{taken(2, 4, 2, during{1, 2}), taken(2, 2, 1, during{3, 4})}},
	} {
		if porcupine.CheckOperations(spaceLedger(10), c.all) != c.legal {
			t.Errorf("%s: legal is %v", what, !c.legal)
		}
	}
}
