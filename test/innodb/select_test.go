package innodb

import (
	"database/sql"
	"errors"
	"testing"
)

// A balance of each user: the row that the write-ups' six schemes make (SOURCES I2).
const balances = `CREATE TABLE balances (user_id VARCHAR(36) NOT NULL PRIMARY KEY, amount BIGINT NOT NULL)`

// The same table with an AUTO_INCREMENT key, as most tables have.
const numbered = `CREATE TABLE numbered (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, user_id INT NOT NULL UNIQUE, amount BIGINT NOT NULL)`

// Two look, see nothing, and insert: the second fails.
func TestSelectThenInsertRaces(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	wantRows(t, a.all("SELECT amount FROM balances WHERE user_id = 'ann'"))
	wantRows(t, b.all("SELECT amount FROM balances WHERE user_id = 'ann'"))
	a.must("INSERT INTO balances VALUES ('ann', 0)")
	late := b.start("INSERT INTO balances VALUES ('ann', 0)")
	s.awaitWaiting(t, 1)
	a.commit()
	wantCode(t, <-late, duplicate)
	// The solution: ignore the duplicate and read the other session's row, which READ COMMITTED
	// sees.
	wantRows(t, b.all("SELECT amount FROM balances WHERE user_id = 'ann'"), "0")
}

// In REPEATABLE READ the loser gets a duplicate error and cannot see the row, because its snapshot
// is older. A caller that retries by reading again never ends.
func TestSnapshotHidesTheDuplicate(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	b := s.session(t, repeatableRead)
	plainSnapshots(t, b)
	wantRows(t, b.all("SELECT amount FROM balances WHERE user_id = 'ann'")) // takes the snapshot
	exec(t, s, "INSERT INTO balances VALUES ('ann', 7)")
	_, err := b.run("INSERT INTO balances VALUES ('ann', 0)")
	wantCode(t, err, duplicate)
	wantRows(t, b.all("SELECT amount FROM balances WHERE user_id = 'ann'"))
	// A locking read has no snapshot; nor has a new transaction.
	wantRows(t, b.all("SELECT amount FROM balances WHERE user_id = 'ann' FOR UPDATE"), "7")
	b.commit()
	wantRows(t, b.all("SELECT amount FROM balances WHERE user_id = 'ann'"), "7")
}

// plainSnapshots turns off what newer MariaDB adds: with innodb_snapshot_isolation, which is on
// from 11.6.2, the loser ends in error 1020 instead. SmartDrive works in READ COMMITTED, where
// there is neither.
func plainSnapshots(t *testing.T, s *session) {
	t.Helper()
	var name, value string
	err := s.conn.QueryRowContext(t.Context(), "SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").Scan(&name, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return
	}
	must(t, err)
	s.must("SET SESSION innodb_snapshot_isolation = OFF")
}

// FOR UPDATE on an absent row locks the gap, which several transactions may do concurrently. Their
// inserts then wait for each other's gap locks.
func TestForUpdateOnAnAbsentRowDeadlocks(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	a, b := s.session(t, repeatableRead), s.session(t, repeatableRead)
	a.must("SELECT amount FROM balances WHERE user_id = 'ann' FOR UPDATE")
	b.must("SELECT amount FROM balances WHERE user_id = 'ann' FOR UPDATE") // does not wait
	first := a.start("INSERT INTO balances VALUES ('ann', 0)")
	s.awaitWaiting(t, 1)
	_, err := b.run("INSERT INTO balances VALUES ('ann', 0)")
	wantOneVictim(t, err, <-first)
}

// In READ COMMITTED it locks nothing at all: the two do not wait for each other, and the race is as
// without it.
func TestForUpdateOnAnAbsentRowLocksNothingInReadCommitted(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	a.must("SELECT amount FROM balances WHERE user_id = 'ann' FOR UPDATE")
	b.must("SELECT amount FROM balances WHERE user_id = 'ann' FOR UPDATE")
	a.must("INSERT INTO balances VALUES ('ann', 0)") // does not wait for b
	late := b.start("INSERT INTO balances VALUES ('ann', 0)")
	s.awaitWaiting(t, 1)
	a.commit()
	wantCode(t, <-late, duplicate)
}

// On an existing row FOR UPDATE works: the second transaction waits and then sees what the first
// has written.
func TestForUpdateOnExistingRowWaits(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	exec(t, s, "INSERT INTO balances VALUES ('ann', 1)")
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	a.must("SELECT amount FROM balances WHERE user_id = 'ann' FOR UPDATE")
	late := b.start("UPDATE balances SET amount = amount * 10 WHERE user_id = 'ann'")
	s.awaitWaiting(t, 1)
	a.must("UPDATE balances SET amount = amount + 1 WHERE user_id = 'ann'")
	a.commit()
	must(t, <-late)
	wantRows(t, b.all("SELECT amount FROM balances WHERE user_id = 'ann'"), "20")
}
