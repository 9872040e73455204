package plans

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
)

// crowd is the number of rows of each kind in an installation of a million nodes: 10^5 accounts
// with ten nodes each. Other tables have the sizes of a busy installation: ended uploads and the
// outbox of a week, idempotency keys of a day, findings of some months.
type crowd int

// million is the size at which plans are judged.
const million crowd = 1_000_000

// part returns the given number of thousandths of c, at least 10.
func (c crowd) part(thousandths int) int { return max(10, int(c)*thousandths/1000) }

// made is a table and how its rows follow from a number, i, from 0 on. The columns are in the order
// of the statement; id('x', e) is the id of the e-th row of a kind.
type made struct {
	table   string
	rows    int
	columns string
	values  string
}

// now is the creation time of the rows in Unix ms, each row a minute earlier than the next. It is
// later than the times in the recorded statements. So nothing is old enough to be deleted, as after
// housekeeping, and a statement that searches for old rows one by one reads all.
const now = 2_000_000_000_000

// crowded lists the tables in the order in which they refer to each other.
func crowded(c crowd) []made {
	accounts, blobs := c.part(100), c.part(500)
	account := func(e string) string { return fmt.Sprintf("id('a', %s %% %d)", e, accounts) }
	return []made{
		{"accounts", accounts, "id, created_at", "id('a', i), at"},
		{
			"users", accounts, "id, account_id, name, slot, password, admin, state, created_at, updated_at, deleted_at",
			"id('u', i), id('a', i), id('n', i), id('n', i), '$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA', CASE WHEN i % 9999 = 9 THEN 1 ELSE 0 END, CASE WHEN i % 50 = 1 THEN 'deleted' ELSE 'active' END, at, at, CASE WHEN i % 50 = 1 THEN at ELSE 0 END",
		},
		{
			"sessions", c.part(300), "id, user_id, kind, name, secret, scopes, created_at, seen_at, expires_at",
			"id('s', i), id('u', i % " + fmt.Sprint(accounts) + "), CASE WHEN i % 10 = 0 THEN 'token' ELSE 'login' END, 'Firefox', substr(id('s', i), 5), 7, at, at, CASE WHEN i % 10 = 0 THEN 0 ELSE at + 2592000000 END",
		},
		{"ledgers", accounts, "account_id, total, finished, unfinished, reserved", "id('a', i), 10737418240, i * 1000, 0, 0"},
		{"trees", accounts, "account_id, root_id, seq, node_count", "id('a', i), id('f', i), 20, 9"},
		{
			"blobs", blobs, "id, file, algo, digest, size, part_size, crc32, refs, created_at, scrubbed_at, parts",
			"id('b', i), id('b', i), 'blake3', id('d', i), 1000 + i % 900000, 8388608, i, 1 + i % 3, at, at, x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223'",
		},
		{"aliases", c.part(200), "algo, digest, blob_id", "'sha256', id('d', i), id('b', i)"},
		{
			"nodes", accounts, "id, account_id, name, name_fold, slot, type, mtime, rev, seq, created_at, updated_at",
			"id('f', i), id('a', i), '', '', '', 'folder', at, 1, 1, at, at",
		},
		{
			"nodes", c.part(900), "id, account_id, parent_id, name, name_fold, slot, type, version_id, mtime, rev, seq, created_at, updated_at, trashed_at",
			"id('c', i), " + account("i") + ", id('f', i % " + fmt.Sprint(accounts) + "), id('n', i), id('n', i), CASE WHEN i % 20 = 3 THEN id('t', i) ELSE id('n', i) END, CASE WHEN i % 9 = 0 THEN 'folder' ELSE 'file' END, CASE WHEN i % 9 = 0 THEN NULL ELSE id('v', i) END, at, 1, 2 + i / " + fmt.Sprint(accounts) + ", at, at, CASE WHEN i % 20 = 3 THEN at ELSE 0 END",
		},
		{
			"versions", c.part(900), "id, node_id, account_id, blob_id, size, mtime, mime, created_at, created_by",
			"id('v', i), id('c', i), " + account("i") + ", id('b', i % " + fmt.Sprint(blobs) + "), 1000 + i % 900000, at, 'image/jpeg', at, id('u', 1)",
		},
		{
			"tombstones", c.part(500), "account_id, seq, node_id, deleted_at",
			account("i") + ", 100 + i / " + fmt.Sprint(accounts) + ", id('x', i), at",
		},
		{
			"operations", c.part(500), "id, account_id, user_id, kind, args, state, created_at, updated_at",
			"id('o', i), " + account("i") + ", id('u', 1), 'move', '{}', CASE WHEN i % 10000 = 7 THEN 'running' WHEN i % 100 = 3 THEN 'failed' ELSE 'done' END, at, at",
		},
		{
			"uploads", c.part(1000), "id, account_id, user_id, parent_id, name, conflict, size, part_size, mtime, mime, fingerprint, digests, challenge, state, gen, reserved, held, created_at, active_at, ended_at",
			"id('p', i), " + account("i") + ", id('u', 1), id('f', i % " + fmt.Sprint(accounts) + "), id('n', i), 'rename', 5000000, 8388608, at, 'image/jpeg', id('q', i), '{}', '', CASE WHEN i % 50 = 3 THEN 'active' WHEN i % 50 = 4 THEN 'parked' WHEN i % 50 = 5 THEN 'gone' ELSE 'done' END, 3, 0, 0, at, at, CASE WHEN i % 50 IN (3, 4) THEN 0 ELSE at END",
		},
		{"refusals", c.part(200), "user_id, digest, until", "id('u', i), id('d', i), at + 86400000"},
		{
			"idempotency", c.part(300), "user_id, method, route, `key`, fingerprint, status, body, created_at",
			"id('u', i % " + fmt.Sprint(accounts) + "), 'POST', '/uploads', id('k', i), x'00', 201, x'7b7d', at",
		},
		{
			"outbox", c.part(1000), "event_id, topic, `key`, event, created_at",
			"id('e', i), CASE WHEN i % 10 = 0 THEN 'uploads' ELSE 'files' END, " + account("i") + ", '{\"specversion\":\"1.0\",\"type\":\"file.created\"}', at",
		},
		{"cursors", 2, "consumer, topic, position", "id('k', i), 'files', 10"},
		{"released", c.part(100), "file, size, released_at", "id('r', i), 1000, at"},
		{
			"shares", c.part(500), "id, account_id, user_id, node_id, token, code, epoch, expires_at, created_at",
			"id('h', i), " + account("i") + ", id('u', 1), id('c', i), id('k', i), '', 0, 0, at",
		},
		{"share_downloads", c.part(200), "visit_id, node_id, share_id, begun_at", "id('w', i), id('c', i), id('h', i), at"},
		{"share_attempts", c.part(100), "subject, tries, started_at", "id('w', i), 1, at"},
		{
			"collects", c.part(100), "id, account_id, user_id, folder_id, token, title, message, expires_at, created_at",
			"id('l', i), id('a', i), id('u', i), id('c', i), id('k', i), '', '', 0, at",
		},
		{
			"collected", c.part(500), "upload_id, collect_id, account_id, sender_id, sender, name, size, digests, state, node_id, created_at",
			"id('p', i), id('l', i % " + fmt.Sprint(accounts) + "), " + account("i") + ", id('w', i % 40000), 'somebody', id('n', i), 1000, '{}', CASE WHEN i % 500 = 3 THEN 'open' ELSE 'done' END, id('c', i), at",
		},
		{
			"bundles", c.part(200), "id, account_id, source, sender_id, folder_id, meta_id, meta_version, state, reason, detail, worker, due_at, sealed_at, waits_until, ended_at",
			"id('m', i), " + account("i") + ", 'acme', id('n', i), id('c', i), id('c', i + 1), id('v', i + 1), CASE WHEN i % 10000 = 3 THEN 'sealed' WHEN i % 100 = 5 THEN 'rejected' ELSE 'done' END, '', '', '', at, at, at, at",
		},
		{
			"exports", c.part(20), "id, account_id, user_id, name, origin, request, slot, root_id, revision, priority, state, total, collected, worker, machine, due_at, avoid, error, etag, created_at, ended_at, expires_at, released_at",
			"id('z', i), " + account("i") + ", id('u', 1), 'export', 'manual', '{}', id('z', i), id('z', i), 1, 0, CASE WHEN i % 1000 = 3 THEN 'pending' WHEN i % 3 = 0 THEN 'sealed' ELSE 'expired' END, 10, 10, '', '', at, '', '', '', at, at, at, CASE WHEN i % 3 = 0 OR i % 1000 = 3 THEN 0 ELSE at END",
		},
		{"findings", c.part(10), "found_at, seen_at, invariant, subject, expected, found, nodes, repaired", "at, at, 'T3', id('c', i), '1', '2', '', i % 2"},
	}
}

// populate fills a database in transactions of some 10^5 rows, because a server ends long ones.
func populate(t testing.TB, db *sqldb.DB, c crowd) {
	t.Helper()
	const batch = 100_000
	number(t, db, min(batch, max(int(c), 10)))
	for _, m := range crowded(c) {
		for from := 0; from < m.rows; from += batch {
			query := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM (SELECT n + %d AS i, %d - 60000 * (%d - n) AS at FROM numbers WHERE n < %d) AS all_of_them",
				m.table, m.columns, ids(m.values, db.Dialect()), from, now, m.rows-from, m.rows-from)
			write(t, db, query)
		}
	}
	if db.Dialect() == sqldb.MySQL { // whose planner goes by what it has counted
		for _, m := range crowded(c) {
			write(t, db, "ANALYZE TABLE "+m.table)
		}
	}
}

// number makes a table of the numbers below n.
func number(t testing.TB, db *sqldb.DB, n int) {
	t.Helper()
	write(t, db, "CREATE TABLE numbers (n INTEGER NOT NULL PRIMARY KEY)")
	write(t, db, "INSERT INTO numbers (n) VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
	for have := 10; have < n; have *= 10 {
		write(t, db, fmt.Sprintf("INSERT INTO numbers (n) SELECT n FROM (SELECT a.n + %d * b.n AS n FROM numbers a, numbers b WHERE b.n BETWEEN 1 AND 9) AS more WHERE n < %d", have, n))
	}
}

// ids writes id('x', e) as the dialect makes text of 36 characters: sorted as the numbers are.
func ids(values string, dialect sqldb.Dialect) string {
	for {
		from := strings.Index(values, "id('")
		if from < 0 {
			return values
		}
		to := from + strings.Index(values[from:], ")")
		kind, e, _ := strings.Cut(values[from+len("id('"):to], "', ")
		text := fmt.Sprintf("printf('019%02x000-0000-7000-8000-%%012d', %s)", kind[0], e)
		if dialect == sqldb.MySQL {
			text = fmt.Sprintf("CONCAT('019%02x000-0000-7000-8000-', LPAD(%s, 12, '0'))", kind[0], e)
		}
		values = values[:from] + text + values[to+1:]
	}
}

func write(t testing.TB, db *sqldb.DB, query string) {
	t.Helper()
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, query)
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
}
