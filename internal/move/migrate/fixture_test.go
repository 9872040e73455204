package migrate

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// place is the location of a side.
type place struct{ at string }

// onSQLite returns a file with empty tables. It is copied, because creating the tables for each
// side took a third of the tests' processor time under the race detector.
func onSQLite(t testing.TB) *place { return &place{sqldbtest.File(t)} }

// onNewSQLite returns the path of a file to be created.
func onNewSQLite(t testing.TB) *place {
	return &place{filepath.Join(t.TempDir(), "side.db")}
}

// onMySQL returns an empty database for the test.
func onMySQL(t testing.TB) *place {
	at, _ := sqldbtest.Empty(t)
	return &place{at}
}

func (p *place) options() sqldb.Options {
	o := sqldb.Options{Path: p.at, Log: slog.New(slog.DiscardHandler), Connections: 8}
	if strings.HasPrefix(p.at, "mysql://") {
		o.Path, o.MySQL = "", p.at
	}
	return o
}

// process is one instance: a handle and its migration.
type process struct {
	db     *sqldb.DB
	m      *Migration
	faults map[string]*sqldbtest.Faults // by side: faults between the process and the side
}

// site starts processes on a pair of sides.
type site struct {
	t      testing.TB
	old    *place
	new    *place
	member func(db *sqldb.DB) Member
	opt    Options
	party  Party
	mend   time.Duration // zero: takeoverTime
}

func newSite(t testing.TB, from, to *place) *site {
	return &site{t: t, old: from, new: to, member: func(*sqldb.DB) Member { return instance.Alone(instance.Info{Generation: 1}) }}
}

func (p *process) open(ctx context.Context, at string, how Opening) (*sqldb.DB, error) {
	o := (&place{at}).options()
	o.NoForeignKeys, o.ReadOnly = how.Unchecked, how.ReadOnly
	faults := p.faults[at]
	o.Connector = func(dsn string) (driver.Connector, error) { return faults.Connector(sqldbtest.Unsynced(dsn)) }
	return sqldb.Open(ctx, o)
}

// start starts a process on the old or the new side.
func (s *site) start(at *place) (*process, error) {
	ctx := context.Background()
	p := &process{faults: map[string]*sqldbtest.Faults{s.old.at: {}, s.new.at: {}}}
	db, err := p.open(ctx, at.at, Opening{})
	if err != nil {
		return nil, err
	}
	opt := s.opt
	opt.DB, opt.Here, opt.Open, opt.Log = db, at.at, p.open, slog.New(slog.DiscardHandler)
	if opt.Sample == 0 {
		opt.Sample = -1
	}
	p.db, p.m = db, New(opt)
	p.m.switcher.takeoverAfter = cmp.Or(s.mend, takeoverTime)
	party := s.party
	party.Member = s.member(db)
	p.m.SetParty(party)
	if err := p.m.Restore(ctx); err != nil {
		p.stop(s.t)
		return nil, err
	}
	return p, nil
}

func (s *site) mustStart(at *place) *process {
	s.t.Helper()
	p, err := s.start(at)
	if err != nil {
		s.t.Fatalf("start: %v", err)
	}
	return p
}

func (p *process) stop(t testing.TB) {
	if err := p.m.Close(); err != nil {
		t.Logf("close the migration: %v", err)
	}
	if err := p.db.Close(); err != nil {
		t.Logf("close the database: %v", err)
	}
}

// seed creates an installation with rows in all kinds of tables.
func seed(t testing.TB, db *sqldb.DB, accounts int) []drive.AccountID {
	t.Helper()
	var ids []drive.AccountID
	for i := range accounts {
		id := drive.NewID[drive.AccountID]()
		ids = append(ids, id)
		must(t, db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			if i == 0 {
				if _, err := tx.Exec(ctx, "INSERT INTO meta (name, value) VALUES ('installation', 'this one')"); err != nil {
					return err
				}
			}
			return makeAccount(ctx, tx, id, i)
		}))
	}
	return ids
}

func makeAccount(ctx context.Context, tx *sqldb.Tx, id drive.AccountID, i int) error {
	user, root := drive.NewID[drive.UserID](), drive.NewID[drive.NodeID]()
	name := fmt.Sprintf("ünïcode %d ", i) // with a trailing space
	for _, s := range []struct {
		query string
		args  []any
	}{
		{"INSERT INTO accounts (id, created_at) VALUES (?, 1)", []any{id}},
		{
			"INSERT INTO users (id, account_id, name, slot, password, admin, state, created_at, updated_at) VALUES (?, ?, ?, ?, 'x', 1, 'active', 1, 1)",
			[]any{user, id, name, name},
		},
		{
			"INSERT INTO sessions (id, user_id, kind, name, secret, scopes, created_at, seen_at, expires_at) VALUES (?, ?, 'login', '', ?, -1, 1, 1, 0)",
			[]any{drive.NewID[drive.SessionID](), user, append(make([]byte, 16), user[:]...)},
		},
		{"INSERT INTO ledgers (account_id, total) VALUES (?, NULL)", []any{id}},
		{"INSERT INTO trees (account_id, root_id, seq, node_count) VALUES (?, ?, 0, 0)", []any{id, root}},
		{"INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, mtime, rev, seq, created_at, updated_at) " +
			"VALUES (?, ?, NULL, '', '', '', 'folder', 1, 1, 0, 1, 1)", []any{root, id}},
		{"INSERT INTO outbox (event_id, topic, `key`, event, created_at) VALUES (?, 't', ?, '{}', 1)", []any{"e" + id.String(), id.String()}},
		{
			"INSERT INTO idempotency (user_id, method, route, `key`, fingerprint, status, body, created_at) VALUES (?, 'POST', '/x.y', ?, ?, 200, ?, 1)",
			[]any{user, "k." + name, make([]byte, 32), []byte{0, 255, 'a', '\''}},
		},
	} {
		if _, err := tx.Exec(ctx, s.query, s.args...); err != nil {
			return fmt.Errorf("%s: %w", s.query, err)
		}
	}
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dump returns every moved row of a side by table and key.
func dump(t testing.TB, m *Migration, s *Side) map[string]row {
	t.Helper()
	out := map[string]row{}
	for _, tab := range m.tablesFor(s) {
		rows, err := tab.readRows(t.Context(), s.DB, "")
		must(t, err)
		for _, r := range rows {
			out[tab.name+" "+tab.keyOf(r)] = r
		}
	}
	return out
}
