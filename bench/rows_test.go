//go:build linux

package bench

import (
	"errors"
	"fmt"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// BenchmarkRows compares schemes to create one row per user by whichever request comes first
// (SOURCES I2): 1,000 concurrent requests over 32 connections. Each ensures that its user's balance
// exists and adds 1 to it.
//
//	go test ./bench -run XXX -bench Rows -benchtime 1x
//
// A deadlock is retried as in SmartDrive: three times, after a pause. Any remaining error is a
// failed request. "Lost" counts acknowledged additions that are missing in the end.
func BenchmarkRows(b *testing.B) {
	for b.Loop() {
		for _, isolation := range []string{"READ-COMMITTED", "REPEATABLE-READ"} {
			s := openRows(b, isolation)
			for _, crowd := range crowds {
				if isolation == "READ-COMMITTED" || crowd.inside { // outside the transaction there is no old snapshot
					s.compare(b, crowd)
				}
			}
			s.close(b)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// crowd describes the concurrent requests.
type crowd struct {
	name   string
	users  int
	there  bool // the rows exist already
	inside bool // in the transaction that adds, not before it
}

var crowds = []crowd{
	{name: "one user, before the business", users: 1},
	{name: "one user, inside the business", users: 1, inside: true},
	{name: "100 users, before the business", users: 100},
	{name: "100 users, inside the business", users: 100, inside: true},
	{name: "100 users whose rows are there, before the business", users: 100, there: true},
}

// requests is the number of concurrent requests of a crowd.
const requests = 1000

// scheme is a way to ensure that a user's row exists.
type scheme struct {
	name  string
	table string
	tx    bool // only valid in a transaction
	ready func(r *request) error
}

// The six schemes for InnoDB run on a common table, with a number as primary key. SmartDrive's
// scheme runs on a table like its own, whose primary key is known in advance. It is last and is the
// baseline.
var schemes = []scheme{
	{"select, insert", "numbered", false, selectInsert("")},
	{"select for update, insert", "numbered", true, selectInsert(" FOR UPDATE")},
	{"insert, swallow, read back", "numbered", false, insertSwallow},
	{"insert ignore, read back, verify", "numbered", false, insertWith("INSERT IGNORE", "")},
	{"on duplicate key update, read", "numbered", false, insertWith("INSERT", " ON DUPLICATE KEY UPDATE amount = amount")},
	{"replace, read", "numbered", false, insertWith("REPLACE", "")},
	{"insert ignore, ..., own key", "own", false, insertWith("INSERT IGNORE", "")},
	{"select first, else as below", "own", false, selectFirst},
	{"redis lock or refused; select, insert", "own", false, locked(false, selectInsert(""))},
	{"redis lock, tried again; select, insert", "own", false, locked(true, selectInsert(""))},
	{"select; redis lock, tried again; select, insert", "own", false, lookLockLook},
	{"insert, swallow, ..., own key", "own", false, insertSwallow},
}

const total = 100 // value to verify

// selectInsert looks for the row, with an optional locking clause, and inserts it if it is missing.
func selectInsert(lock string) func(*request) error {
	return func(r *request) error {
		found, err := r.read("SELECT total FROM " + r.table + " WHERE user_id = ?" + lock)
		if err != nil || found {
			return err
		}
		return r.exec("INSERT INTO "+r.table+" (user_id, total, amount) VALUES (?, ?, 0)", r.user, total)
	}
}

// insertSwallow inserts the row, ignores a duplicate, and reads the row back.
func insertSwallow(r *request) error {
	err := r.exec("INSERT INTO "+r.table+" (user_id, total, amount) VALUES (?, ?, 0)", r.user, total)
	if err != nil && !sqldb.IsDuplicate(err) {
		return err
	}
	return r.readBack()
}

// selectFirst suits rows that nearly always exist.
func selectFirst(r *request) error {
	found, err := r.read("SELECT total FROM own WHERE user_id = ?")
	if err != nil || found {
		return err
	}
	return insertSwallow(r)
}

// locked runs ready under a lock in Redis; see lock.
func locked(again bool, ready func(*request) error) func(*request) error {
	return func(r *request) error {
		unlock, err := r.lock(again)
		if err != nil {
			return err
		}
		return errors.Join(ready(r), unlock())
	}
}

// lookLockLook takes the lock only if the row does not exist.
func lookLockLook(r *request) error {
	found, err := r.read("SELECT total FROM own WHERE user_id = ?")
	if err != nil || found {
		return err
	}
	return locked(true, selectInsert(""))(r)
}

// insertWith inserts the row with a variant of INSERT that ignores duplicates, and reads the row
// back.
func insertWith(verb, tail string) func(*request) error {
	return func(r *request) error {
		if err := r.exec(verb+" INTO "+r.table+" (user_id, total, amount) VALUES (?, ?, 0)"+tail, r.user, total); err != nil {
			return err
		}
		return r.readBack()
	}
}

// readBack fails if the row does not exist.
func (r *request) readBack() error {
	found, err := r.read("SELECT total FROM " + r.table + " WHERE user_id = ?")
	if err == nil && !found {
		err = errNotThere
	}
	return err
}

// compare runs all schemes alternately several times and prints the table.
func (s *rowServer) compare(b *testing.B, c crowd) {
	b.Helper()
	series := make([]outcomes, len(schemes)+1)
	for range rounds(5) {
		for i, scheme := range schemes {
			series[i].add(s.run(b, scheme, c))
		}
		if !c.inside {
			series[len(schemes)].add(s.runLedger(b, c))
		}
	}
	baseline := series[len(schemes)-1].perSecond
	rows := [][]any{{"scheme", "requests/s", "of the baseline", "p50 ms", "p99 ms", "deadlocks", "failed", "lost", "statements", "numbers burnt"}}
	for i, out := range series {
		if len(out.perSecond) == 0 {
			continue
		}
		name := "smartdrive's ledger (two transactions)"
		if i < len(schemes) {
			name = schemes[i].name
		}
		rows = append(rows, append([]any{name, spread(out.perSecond), spread(out.perSecond.over(baseline))}, out.cells()...))
	}
	table(b, fmt.Sprintf("%d requests: %s; %s; %s", requests, c.name, s.isolation, s.version), rows...)
}

// runLedger does the same with SmartDrive's code: quota.Ledger creates the row in one transaction
// and moves bytes in another.
func (s *rowServer) runLedger(b *testing.B, c crowd) outcome {
	b.Helper()
	accounts := make([]drive.AccountID, c.users)
	for i := range accounts {
		accounts[i] = drive.NewID[drive.AccountID]()
		_, err := s.db.ExecContext(b.Context(), "INSERT INTO "+s.driveName+".accounts (id, created_at) VALUES (?, 0)", accounts[i])
		must(b, err)
		if c.there {
			must(b, s.drive.Write(b.Context(), makeLedger(accounts[i])))
		}
	}
	reruns, calls := s.drive.Stats().Reruns.Load(), s.calls.Total()
	out := storm(func(i int) error {
		account := accounts[i%c.users]
		if err := s.drive.Write(b.Context(), makeLedger(account)); err != nil {
			return err
		}
		return s.drive.Write(b.Context(), moveLedger(account, quota.Move{Reserved: 1}))
	})
	out.deadlocks = float64(s.drive.Stats().Reruns.Load() - reruns)
	out.statements = float64(s.calls.Total()-calls) / requests
	var sum float64
	must(b, s.db.QueryRowContext(b.Context(), "SELECT COALESCE(SUM(reserved), 0) FROM "+s.driveName+".ledgers").Scan(&sum))
	out.lost = requests - out.failed - sum
	_, err := s.db.ExecContext(b.Context(), "DELETE FROM "+s.driveName+".ledgers")
	must(b, err)
	return out
}
