package innodb

import "testing"

// The count of ON DUPLICATE KEY UPDATE tells a new row from an old one only as long as the
// connection counts changed rows. SmartDrive's counts matched ones (clientFoundRows, so that a
// compare-and-set that changes nothing is not taken for a lost one), and then both are 1.
func TestUpsertCountCannotTellANewRow(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	found := *s.config
	found.ClientFoundRows = true
	db := open(t, &found)
	const upsert = "INSERT INTO balances VALUES ('ann', 0) ON DUPLICATE KEY UPDATE amount = amount"
	first, second := exec(t, db, upsert), exec(t, db, upsert)
	if first != 1 || second != 1 {
		t.Fatalf("%d rows for the new one, %d for the old one", first, second)
	}
	if n := exec(t, s, upsert); n != 0 {
		t.Fatalf("%d changed rows", n)
	}
}

// Without clientFoundRows an UPDATE to the present value affects no row, like one whose WHERE
// clause matches none: a successful compare-and-set looks lost.
func TestUpdateCountsMatchedRowsOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	exec(t, s, "INSERT INTO balances VALUES ('ann', 5)")
	const same = "UPDATE balances SET amount = 5 WHERE user_id = 'ann'"
	if n := exec(t, s, same); n != 0 {
		t.Fatalf("%d changed", n)
	}
	found := *s.config
	found.ClientFoundRows = true
	if n := exec(t, open(t, &found), same); n != 1 {
		t.Fatalf("%d matched", n)
	}
}

// With two unique keys an upsert changes whichever row conflicts: meant for person 3, it changed
// person 2, who had that name.
func TestUpsertChangesTheRowOfAnotherKey(t *testing.T) {
	t.Parallel()
	s := newServer(t, `CREATE TABLE people (id INT NOT NULL PRIMARY KEY, name VARCHAR(9) NOT NULL UNIQUE, quota INT NOT NULL)`)
	exec(t, s, "INSERT INTO people VALUES (1, 'ann', 10), (2, 'bob', 10)")
	exec(t, s, "INSERT INTO people VALUES (3, 'bob', 99) ON DUPLICATE KEY UPDATE quota = VALUES(quota)")
	wantRows(t, all(t, s, "SELECT quota FROM people WHERE id = 2"), "99")
	wantRows(t, all(t, s, "SELECT id FROM people WHERE id = 3"))
}

// Two upserts that meet a row by a secondary unique key take it and the gap before it, for writing;
// their owners then wait for each other with rows of strangers (MySQL bug 52020).
func TestUpsertOnASecondaryKeyDeadlocks(t *testing.T) {
	t.Parallel()
	s := newServer(t, numbered)
	exec(t, s, "INSERT INTO numbered (user_id, amount) VALUES (10, 0), (20, 0)")
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	const upsert = "INSERT INTO numbered (user_id, amount) VALUES (?, 0) ON DUPLICATE KEY UPDATE amount = amount + 1"
	a.must(upsert, 20)
	b.must(upsert, 10)
	first := a.start(upsert, 5)
	s.awaitWaiting(t, 1)
	_, err := b.run(upsert, 15)
	wantOneVictim(t, err, <-first)
}

// REPLACE deletes and inserts: the other columns are lost, the AUTO_INCREMENT id changes, and rows
// that referred to the old one are deleted.
func TestReplaceLosesWhatWasThere(t *testing.T) {
	t.Parallel()
	s := newServer(t, numbered, `CREATE TABLE moves (id INT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL,
		FOREIGN KEY (balance) REFERENCES numbered (id) ON DELETE CASCADE)`)
	exec(t, s, "INSERT INTO numbered (user_id, amount) VALUES (1, 500)")
	exec(t, s, "INSERT INTO moves VALUES (1, 1)")
	exec(t, s, "REPLACE INTO numbered (user_id, amount) VALUES (1, 0)") // "make sure there is a row"
	wantRows(t, all(t, s, "SELECT CONCAT(id, ' ', amount) FROM numbered"), "2 0")
	wantRows(t, all(t, s, "SELECT id FROM moves"))
}

// REPLACE deadlocks in READ COMMITTED too: the search for the duplicate locks the gap whatever the
// isolation.
func TestReplaceDeadlocks(t *testing.T) {
	t.Parallel()
	s := newServer(t, numbered)
	exec(t, s, "INSERT INTO numbered (user_id, amount) VALUES (10, 0), (20, 0), (30, 0), (40, 0)")
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	const replace = "REPLACE INTO numbered (user_id, amount) VALUES (?, 0)"
	a.must(replace, 10)
	b.must(replace, 40)
	first := a.start(replace, 35)
	s.awaitWaiting(t, 1)
	_, err := b.run(replace, 5)
	wantOneVictim(t, err, <-first)
}

// REPLACE also waits for unrelated rows: it locks the row after the replaced one.
func TestReplaceWaitsForANeighbour(t *testing.T) {
	t.Parallel()
	s := newServer(t, numbered)
	exec(t, s, "INSERT INTO numbered (user_id, amount) VALUES (10, 0), (20, 0)")
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	a.must("UPDATE numbered SET user_id = 21 WHERE user_id = 20")
	late := b.start("REPLACE INTO numbered (user_id, amount) VALUES (10, 0)")
	s.awaitWaiting(t, 1)
	a.commit()
	must(t, <-late)
}
