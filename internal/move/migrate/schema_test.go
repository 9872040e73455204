package migrate

import (
	"context"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// The assumptions of moving hold for every table: both sides have the same columns, keys sort alike
// and fit into the list of changes, and cascading deletes are recorded.
func TestBothSchemas(t *testing.T) {
	t.Parallel()
	lite, err := sqldb.Open(t.Context(), onNewSQLite(t).options())
	must(t, err)
	defer lite.Close()
	server, err := sqldb.Open(t.Context(), onMySQL(t).options())
	must(t, err)
	defer server.Close()
	a, err := schemaOf(t.Context(), lite)
	must(t, err)
	b, err := schemaOf(t.Context(), server)
	must(t, err)
	if how := schemaDiff(a, b); how != "" {
		t.Fatal(how)
	}
	cascades := 0
	for _, table := range b {
		size := int64(len(table.key))
		for _, c := range table.key {
			size += 2 * max(20, table.cols[c].limit)
		}
		if size > 2048 {
			t.Errorf("a key of %s takes %d bytes", table.name, size)
		}
		cascades += len(table.children)
	}
	if cascades == 0 {
		t.Error("the rows that are deleted with an upload are not found")
	}
	var padded int
	must(t, server.QueryRow(t.Context(), `SELECT COUNT(*) FROM information_schema.columns c JOIN information_schema.statistics k USING (table_schema, table_name, column_name)
		WHERE c.table_schema = DATABASE() AND k.index_name = 'PRIMARY' AND c.character_set_name NOT IN ('ascii') AND c.table_name <> 'goose_db_version'`).Scan(&padded))
	if padded > 0 {
		t.Errorf("%d columns of keys sort by a collation that SQLite does not have", padded)
	}
}

// An assigned number is not assigned again on the other side, although its row is deleted.
func TestNumbersContinue(t *testing.T) {
	t.Parallel()
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair.from(t), pair.to(t))
			p := s.mustStart(s.old)
			defer p.stop(t)
			seed(t, p.db, 2)
			climb(t, p, ReadNew)
			before := publish(t, p.db)
			for range 50 {
				before = publish(t, p.db)
			}
			if to, err := p.m.Advance(t.Context(), AnyPhase); err != nil || to != WriteNew {
				t.Fatalf("at phase %d: %v", to, err)
			}
			after := publish(t, p.db)
			if after <= before {
				t.Fatalf("offset %d after %d", after, before)
			}
			verifyAgain(t, p)
			if to, err := p.m.Rollback(t.Context(), AnyPhase); err != nil || to != ReadNew {
				t.Fatalf("at phase %d: %v", to, err)
			}
			if again := publish(t, p.db); again <= after {
				t.Fatalf("offset %d after %d", again, after)
			}
		})
	}
}

// publish inserts a record and trims it.
func publish(t *testing.T, db *sqldb.DB) (id int64) {
	t.Helper()
	must(t, db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		id, err = tx.Insert(ctx, "INSERT INTO outbox (event_id, topic, `key`, event, created_at) VALUES (?, 't', '', '{}', 1)",
			drive.NewID[drive.NodeID]().String())
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM outbox WHERE id = ?", id)
		}
		return err
	}))
	return id
}

// Queries of readers are repeated on both sides, and a lasting difference is stored with both
// answers.
func TestSamples(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	s.opt.Sample = 1
	p := s.mustStart(s.old)
	defer p.stop(t)
	id := seed(t, p.db, 3)[0]
	climb(t, p, ReadNew)
	must(t, p.m.Percent(t.Context(), 100, nil))
	ask := func() (finished int64) {
		t.Helper()
		for len(p.m.participant.compare.queue) > 0 {
			<-p.m.participant.compare.queue
		}
		must(t, p.db.For(id).QueryRow(t.Context(), "SELECT finished FROM ledgers WHERE account_id = ?", id).Scan(&finished))
		must(t, p.m.participant.compare.compareAnswers(t.Context(), <-p.m.participant.compare.queue))
		return finished
	}
	ask()
	if all, err := p.m.Mismatches(t.Context(), 10); err != nil || len(all) != 0 {
		t.Fatalf("mismatches %+v, %v", all, err)
	}
	exec(t, p.m.currentSnapshot().other, "UPDATE ledgers SET finished = 7 WHERE account_id = ?", id)
	if finished := ask(); finished != 7 {
		t.Fatalf("read %d: not from the new side", finished)
	}
	all, err := p.m.Mismatches(t.Context(), 10)
	if err != nil || len(all) != 1 || all[0].Ours != `["0"]` || all[0].Theirs != `["7"]` {
		t.Fatalf("mismatches %+v, %v", all, err)
	}
	must(t, p.m.Percent(t.Context(), 0, nil))
	if finished := ask(); finished != 0 {
		t.Fatalf("read %d: not from the old side", finished)
	}
}

// An account on the new side stays there while the percentage grows, and the fraction of accounts
// matches it.
func TestAccountStaysOnNewSide(t *testing.T) {
	t.Parallel()
	const accounts = 5000
	v := &snapshot{record: record{Migration: "m"}}
	var last int
	on := map[drive.AccountID]bool{}
	for v.Percent = 0; v.Percent <= 100; v.Percent += 10 {
		n := 0
		for i := range accounts {
			id := drive.AccountID{byte(i >> 8), byte(i)}
			if v.readsNew(id) {
				n++
				on[id] = true
			} else if on[id] {
				t.Fatalf("%s went back at %d %%", id, v.Percent)
			}
		}
		if want := accounts * v.Percent / 100; n < want-accounts/20 || n > want+accounts/20 || n < last {
			t.Errorf("%d of %d accounts at %d %%", n, accounts, v.Percent)
		}
		last = n
	}
}
