package innodb

import "testing"

// The manual's example: one session inserts, two wait, the first rolls back. Both waiters get a
// shared lock on the removed row and then wait for each other. So "insert, ignore the duplicate
// error" needs a retry.
func TestRollbackUnderTwoWaitersDeadlocks(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	a, b, c := s.session(t, readCommitted), s.session(t, readCommitted), s.session(t, readCommitted)
	a.must("INSERT INTO balances VALUES ('ann', 0)")
	second := b.start("INSERT INTO balances VALUES ('ann', 0)")
	s.awaitWaiting(t, 1)
	third := c.start("INSERT INTO balances VALUES ('ann', 0)")
	s.awaitWaiting(t, 2)
	a.must("ROLLBACK")
	wantOneVictim(t, <-second, <-third)
}

// A duplicate error leaves a shared lock on the row until the end of the transaction. Two
// transactions that both get the error and then change the row deadlock, although the row existed
// all the time.
func TestDuplicateThenUpdateDeadlocks(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	exec(t, s, "INSERT INTO balances VALUES ('ann', 0)")
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	for _, each := range []*session{a, b} {
		_, err := each.run("INSERT INTO balances VALUES ('ann', 0)")
		wantCode(t, err, duplicate)
	}
	first := a.start("UPDATE balances SET amount = amount + 1 WHERE user_id = 'ann'")
	s.awaitWaiting(t, 1)
	_, err := b.run("UPDATE balances SET amount = amount + 1 WHERE user_id = 'ann'")
	wantOneVictim(t, err, <-first)
}

// In a transaction of its own, before the business transaction, the duplicate's lock is released in
// time. This is the order of I1.
func TestDuplicateInItsOwnTransactionHoldsNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	exec(t, s, "INSERT INTO balances VALUES ('ann', 0)")
	for range 2 {
		_, err := s.ExecContext(t.Context(), "INSERT INTO balances VALUES ('ann', 0)")
		wantCode(t, err, duplicate)
	}
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	a.must("UPDATE balances SET amount = amount + 1 WHERE user_id = 'ann'")
	late := b.start("UPDATE balances SET amount = amount + 1 WHERE user_id = 'ann'")
	s.awaitWaiting(t, 1)
	a.commit()
	must(t, <-late)
	wantRows(t, b.all("SELECT amount FROM balances"), "2")
}

// A secondary unique key is worse than a primary one: the duplicate locks the gap before it too, so
// that strangers meet. Two who each met a duplicate then wait for each other with rows that have
// nothing to do with either.
func TestSecondaryUniqueKeyLocksTheGap(t *testing.T) {
	t.Parallel()
	s := newServer(t, numbered)
	exec(t, s, "INSERT INTO numbered (user_id, amount) VALUES (10, 0), (20, 0)")
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	_, err := a.run("INSERT INTO numbered (user_id, amount) VALUES (20, 0)")
	wantCode(t, err, duplicate)
	_, err = b.run("INSERT INTO numbered (user_id, amount) VALUES (10, 0)")
	wantCode(t, err, duplicate)
	first := a.start("INSERT INTO numbered (user_id, amount) VALUES (5, 0)")
	s.awaitWaiting(t, 1)
	_, err = b.run("INSERT INTO numbered (user_id, amount) VALUES (15, 0)")
	wantOneVictim(t, err, <-first)
}

// A primary key that the caller made locks the row and nothing else.
func TestPrimaryKeyLocksOnlyTheRow(t *testing.T) {
	t.Parallel()
	s := newServer(t, `CREATE TABLE own (user_id INT NOT NULL PRIMARY KEY)`)
	exec(t, s, "INSERT INTO own VALUES (10), (20)")
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	_, err := a.run("INSERT INTO own VALUES (20)")
	wantCode(t, err, duplicate)
	_, err = b.run("INSERT INTO own VALUES (10)")
	wantCode(t, err, duplicate)
	a.must("INSERT INTO own VALUES (5)")
	b.must("INSERT INTO own VALUES (15)")
	a.commit()
	b.commit()
}

// Each try takes a number, also the one that fails.
func TestEveryAttemptUsesAnAutoIncrementValue(t *testing.T) {
	t.Parallel()
	for name, query := range map[string]string{
		"insert":           "INSERT INTO numbered (user_id, amount) VALUES (1, 0)",
		"insert ignore":    "INSERT IGNORE INTO numbered (user_id, amount) VALUES (1, 0)",
		"on duplicate key": "INSERT INTO numbered (user_id, amount) VALUES (1, 0) ON DUPLICATE KEY UPDATE amount = amount",
		"replace":          "REPLACE INTO numbered (user_id, amount) VALUES (1, 0)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, numbered)
			for range 10 {
				if _, err := s.ExecContext(t.Context(), query); err != nil {
					wantCode(t, err, duplicate)
				}
			}
			exec(t, s, "INSERT INTO numbered (user_id, amount) VALUES (2, 0)")
			wantRows(t, all(t, s, "SELECT id FROM numbered WHERE user_id = 2"), "11")
		})
	}
}
