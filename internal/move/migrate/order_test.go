package migrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/testkit/depth"
)

// world is the history of a few rows that change and exchange a unique name, with the recorded
// changes.
type world struct {
	id      int
	states  [][]row // of each key, by time
	changes []worldChange
	names   map[string]int // current owner of a name
}

type worldChange struct {
	key  int
	time int
}

const (
	worldKeys  = 3
	worldTimes = 8
)

// newWorld creates a history: at each time one row is inserted, deleted, or takes a free name.
func newWorld(id int) *world {
	w := &world{id: id, states: make([][]row, worldKeys), names: map[string]int{}}
	for k := range worldKeys {
		w.states[k] = make([]row, worldTimes+1)
	}
	for at := 1; at <= worldTimes; at++ {
		k := rand.N(worldKeys)
		for i := range worldKeys {
			w.states[i][at] = w.states[i][at-1]
		}
		if had := w.states[k][at-1]; had != nil {
			delete(w.names, had[1].(string))
		}
		name := fmt.Sprintf("w%d n%d", id, rand.N(2))
		if _, taken := w.names[name]; taken || rand.N(4) == 0 {
			w.states[k][at] = nil
		} else {
			w.names[name] = k
			w.states[k][at] = w.row(k, name, int64(at))
		}
		w.changes = append(w.changes, worldChange{k, at})
	}
	return w
}

// row returns a row of things, whose name is unique.
func (w *world) row(k int, name string, at int64) row {
	return row{w.key(k), name, at}
}

func (w *world) key(k int) string { return fmt.Sprintf("w%d k%d", w.id, k) }

// compensation returns the effect of a change applied at a later time: its number, and the row at
// that time.
func (w *world) compensation(c worldChange) versionedRow {
	then := c.time + rand.N(worldTimes+1-c.time)
	return versionedRow{key: w.key(c.key), version: int64(c.time), state: w.states[c.key][then]}
}

// TestWritesConvergeInAnyOrder is C2: compensations in any order and number lead to the same state.
// Each world is one interleaving; many share a transaction.
func TestWritesConvergeInAnyOrder(t *testing.T) {
	t.Parallel()
	worlds := depth.Pick(1_000, 10_000, 100_000)
	const together = 250
	side := onSQLite(t)
	db, err := sqldb.Open(t.Context(), side.options())
	must(t, err)
	defer db.Close()
	must(t, db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "CREATE TABLE things (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE, at INTEGER NOT NULL) WITHOUT ROWID")
		return err
	}))
	things := &table{name: "things", cols: []column{{name: "id", kind: textKind}, {name: "name", kind: textKind}, {name: "at", kind: numberKind}}, key: []int{0}, unique: [][]int{{1}}}
	for first := 0; first < worlds; first += together {
		want := map[string]row{}
		var all []versionedRow
		for i := range together {
			w := newWorld(first + i)
			for _, c := range w.changes {
				for range 1 + rand.N(2) {
					all = append(all, w.compensation(c))
				}
			}
			for k := range worldKeys {
				if s := w.states[k][worldTimes]; s != nil {
					want[w.key(k)] = s
				}
			}
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		must(t, db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			if _, err := tx.Exec(ctx, "DELETE FROM things"); err != nil {
				return err
			}
			return deliver(ctx, tx, things, all)
		}))
		got := map[string]row{}
		rows, err := things.readRows(t.Context(), db, "")
		must(t, err)
		for _, r := range rows {
			got[things.keyOf(r)] = r
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("worlds from %d (-want +got):\n%s", first, diff)
		}
	}
}

// deliver applies compensations in batches of any size, each key once per batch.
func deliver(ctx context.Context, tx *sqldb.Tx, things *table, all []versionedRow) error {
	for len(all) > 0 {
		n := min(len(all), 1+rand.N(200))
		seen := map[string]bool{}
		i := 0
		for i < n && !seen[all[i].key] {
			seen[all[i].key] = true
			i++
		}
		if err := things.writeNewer(ctx, tx, all[:i]); err != nil {
			return err
		}
		all = all[i:]
	}
	return nil
}
