package innodb

import "testing"

// Rows of two users made in the order they were asked for: the two wait for each other.
func TestRowsInAnyOrderDeadlock(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	a.must("INSERT INTO balances VALUES ('ann', 0)")
	b.must("INSERT INTO balances VALUES ('bob', 0)")
	first := a.start("INSERT INTO balances VALUES ('bob', 0)")
	s.awaitWaiting(t, 1)
	_, err := b.run("INSERT INTO balances VALUES ('ann', 0)")
	wantOneVictim(t, err, <-first)
}

// In the order of their keys the second waits and finds them there.
func TestRowsInOrderWait(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	a.must("INSERT INTO balances VALUES ('ann', 0)")
	late := b.start("INSERT INTO balances VALUES ('ann', 0)")
	s.awaitWaiting(t, 1)
	a.must("INSERT INTO balances VALUES ('bob', 0)")
	a.commit()
	wantCode(t, <-late, duplicate)
	_, err := b.run("INSERT INTO balances VALUES ('bob', 0)")
	wantCode(t, err, duplicate)
}

// A lock wait timeout undoes the statement, not the transaction. A caller that continues and
// commits has committed half.
func TestLockWaitTimeoutKeepsTheTransaction(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	exec(t, s, "INSERT INTO balances VALUES ('ann', 100), ('bob', 0)")
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	a.must("SELECT amount FROM balances WHERE user_id = 'bob' FOR UPDATE")
	b.must("SET SESSION innodb_lock_wait_timeout = 1")
	b.must("UPDATE balances SET amount = amount - 10 WHERE user_id = 'ann'")
	_, err := b.run("UPDATE balances SET amount = amount + 10 WHERE user_id = 'bob'")
	wantCode(t, err, lockWaitTimeout)
	b.commit()
	wantRows(t, all(t, s, "SELECT amount FROM balances ORDER BY user_id"), "90", "0")
}

// A deadlock rolls back and ends the transaction. Further statements of the victim run outside of
// any transaction and persist.
func TestDeadlockEndsTheTransaction(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	exec(t, s, "INSERT INTO balances VALUES ('ann', 100), ('bob', 100)")
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	for range 9 { // a has changed more, so b is the victim
		a.must("UPDATE balances SET amount = amount + 1 WHERE user_id = 'ann'")
	}
	b.must("UPDATE balances SET amount = amount - 10 WHERE user_id = 'bob'")
	first := a.start("UPDATE balances SET amount = amount + 1 WHERE user_id = 'bob'")
	s.awaitWaiting(t, 1)
	_, err := b.run("UPDATE balances SET amount = amount + 10 WHERE user_id = 'ann'")
	wantCode(t, err, deadlock)
	must(t, <-first)
	a.commit()
	b.must("INSERT INTO balances VALUES ('cid', 10)") // b takes the error for a mere refusal and goes on
	b.must("ROLLBACK")
	wantRows(t, all(t, s, "SELECT CONCAT(user_id, ' ', amount) FROM balances ORDER BY user_id"), "ann 109", "bob 101", "cid 10")
}
