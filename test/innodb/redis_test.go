package innodb

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/testkit/servicetest"
)

// lockIn takes a lock in Redis for a holder, and reports whether it was had.
func lockIn(t *testing.T, r *redis.Client, key, holder string) bool {
	t.Helper()
	had, err := r.SetNX(t.Context(), key, holder, 0).Result()
	must(t, err)
	return had
}

func newRedis(t *testing.T) (r *redis.Client, key string) {
	t.Helper()
	opt, err := redis.ParseURL(servicetest.URL(t, servicetest.Redis))
	must(t, err)
	r, key = redis.NewClient(opt), servicetest.Unique()
	t.Cleanup(func() { must(t, r.Close()) })
	t.Cleanup(func() { r.Del(t.Context(), key) })
	return r, key
}

// A lock in Redis can go while its holder is at work: its life ends during a pause of the holder, a
// replica that had not seen it takes over, memory is short. Then two are inside, and the unique key
// alone keeps the row one.
func TestALockInRedisThatIsLostLetsTwoIn(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	r, key := newRedis(t)
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	if !lockIn(t, r, key, "a") || lockIn(t, r, key, "b") {
		t.Fatal("the lock was not had by one alone")
	}
	wantRows(t, a.all("SELECT amount FROM balances WHERE user_id = 'ann'"))
	must(t, r.Del(t.Context(), key).Err()) // its life has ended
	if !lockIn(t, r, key, "b") {
		t.Fatal("the lock of nobody was not had")
	}
	wantRows(t, b.all("SELECT amount FROM balances WHERE user_id = 'ann'"))
	b.must("INSERT INTO balances VALUES ('ann', 0)")
	b.commit()
	_, err := a.run("INSERT INTO balances VALUES ('ann', 0)")
	wantCode(t, err, duplicate)
	// And when a ends its work, it takes the lock away from b, unless it looks whose it is.
	if holder, err := r.Get(t.Context(), key).Result(); err != nil || holder != "b" {
		t.Errorf("the lock is of %q: %v", holder, err)
	}
}

// A Redis lock that is released before the COMMIT protects nothing: the next holder reads and does
// not see the uncommitted row.
func TestALockInRedisWithinATransactionEndsTooEarly(t *testing.T) {
	t.Parallel()
	s := newServer(t, balances)
	r, key := newRedis(t)
	a, b := s.session(t, readCommitted), s.session(t, readCommitted)
	lockIn(t, r, key, "a")
	wantRows(t, a.all("SELECT amount FROM balances WHERE user_id = 'ann'"))
	a.must("INSERT INTO balances VALUES ('ann', 0)")
	must(t, r.Del(t.Context(), key).Err()) // given back, and the business goes on
	if !lockIn(t, r, key, "b") {
		t.Fatal("the lock was not given back")
	}
	wantRows(t, b.all("SELECT amount FROM balances WHERE user_id = 'ann'"))
	late := b.start("INSERT INTO balances VALUES ('ann', 0)")
	s.awaitWaiting(t, 1)
	a.commit()
	wantCode(t, <-late, duplicate)
}
