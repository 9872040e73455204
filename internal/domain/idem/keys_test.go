package idem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// clock is a clock that moves only on demand.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *clock) Advance(d time.Duration) { c.ns.Add(int64(d)) }

type fixture struct {
	keys  *Keys
	ids   *PreparedIDs
	db    *sqldb.DB
	clock *clock
	user  drive.UserID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db, c := sqldbtest.Open(t), newClock()
	opt := Options{Now: c.Now}
	ids, err := OpenPreparedIDs(t.Context(), db, opt)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{keys: NewKeys(db, opt), ids: ids, db: db, clock: c, user: drive.NewID[drive.UserID]()}
}

// request is a creation request with the client's key.
func (f *fixture) request(t *testing.T, key string) Request {
	t.Helper()
	k, err := f.ids.ParseKey(f.user, key)
	if err != nil {
		t.Fatal(err)
	}
	return Request{User: f.user, Method: "POST", Route: "/nodes", Key: k, Fingerprint: Fingerprint{1}}
}

// create is an effect that adds a row; its response identifies the row.
func create(ctx context.Context, tx *sqldb.Tx) (int, []byte, error) {
	id, err := tx.Insert(ctx, `INSERT INTO findings (found_at, seen_at, invariant, subject, expected, found, nodes, repaired)
		VALUES (0, 0, '', '', '', '', '', 0)`)
	return 201, fmt.Appendf(nil, `{"id":%d}`, id), err
}

// created returns the number of executed effects.
func (f *fixture) created(t *testing.T) (n int) {
	t.Helper()
	if err := f.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM findings").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (f *fixture) rows(t *testing.T) (n int) {
	t.Helper()
	if err := f.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM idempotency").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (f *fixture) once(t *testing.T, req Request) Response {
	t.Helper()
	resp, err := f.keys.Once(t.Context(), req, create)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func wantKind(t *testing.T, err error, kind drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
}

// TestLostReplyIsRepeated: after a lost reply the client retries and gets the first response, byte
// for byte, and there is one effect.
func TestLostReplyIsRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	req := f.request(t, "k1")
	first := f.once(t, req)
	if d := cmp.Diff(Response{Status: 201, Body: []byte(`{"id":1}`)}, first); d != "" {
		t.Fatal(d)
	}
	f.clock.Advance(keyLife - time.Second)
	for name, ask := range map[string]func() (Response, error){
		"once": func() (Response, error) { return f.keys.Once(t.Context(), req, create) },
		"do": func() (resp Response, err error) { // as when Lookup came too early to see it
			err = f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
				resp, err = f.keys.Do(ctx, tx, req, create)
				return err
			})
			return resp, err
		},
		"lookup": func() (Response, error) {
			resp, ok, err := f.keys.Lookup(t.Context(), f.db, req)
			if !ok {
				t.Error("lookup found nothing")
			}
			return resp, err
		},
	} {
		got, err := ask()
		if d := cmp.Diff(Response{Status: 201, Body: first.Body, Replayed: true}, got); err != nil || d != "" {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
	if n := f.created(t); n != 1 {
		t.Fatalf("created %d", n)
	}
}

// TestFailedTransactionLeavesNoKey: after a crash or a failed commit no key remains, and a retry
// runs the effect.
func TestFailedTransactionLeavesNoKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	req, boom := f.request(t, "k1"), errors.New("boom")
	for name, fail := range map[string]func(ctx context.Context, tx *sqldb.Tx) error{
		"the effect refuses": func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := f.keys.Do(ctx, tx, req, func(ctx context.Context, tx *sqldb.Tx) (int, []byte, error) {
				if _, _, err := create(ctx, tx); err != nil {
					return 0, nil, err
				}
				return 0, nil, boom
			})
			return err
		},
		"what follows it fails": func(ctx context.Context, tx *sqldb.Tx) error {
			if _, err := f.keys.Do(ctx, tx, req, create); err != nil {
				return err
			}
			return boom
		},
	} {
		if err := f.db.Write(t.Context(), fail); !errors.Is(err, boom) {
			t.Fatalf("%s: %v", name, err)
		}
		if f.created(t) != 0 || f.rows(t) != 0 {
			t.Fatalf("%s: %d created, %d keys", name, f.created(t), f.rows(t))
		}
	}
	if resp := f.once(t, req); resp.Replayed || f.created(t) != 1 {
		t.Fatalf("%+v, created %d", resp, f.created(t))
	}
}

// callers is twice the number of connections of a test database; more would wait longer for a
// connection than a transaction may.
const callers = 16

// TestConcurrentUsersOfAKeyGetOneEffect repeats a double click many times.
func TestConcurrentUsersOfAKeyGetOneEffect(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	req := f.request(t, "k1")
	var resps [callers]Response
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var err error
			if resps[i], err = f.keys.Once(t.Context(), req, create); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	fresh := 0
	for _, r := range resps {
		if !r.Replayed {
			fresh++
		}
		if string(r.Body) != string(resps[0].Body) || r.Status != 201 {
			t.Errorf("answers differ: %+v", r)
		}
	}
	if fresh != 1 || f.created(t) != 1 || f.rows(t) != 1 {
		t.Fatalf("%d fresh, %d created, %d keys", fresh, f.created(t), f.rows(t))
	}
}

func TestOtherPayloadUnderTheSameKeyIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	req := f.request(t, "k1")
	f.once(t, req)
	req.Fingerprint = Fingerprint{2}
	_, err := f.keys.Once(t.Context(), req, create)
	wantKind(t, err, drive.KeyReused)
	err = f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := f.keys.Do(ctx, tx, req, create)
		return err
	})
	wantKind(t, err, drive.KeyReused)
	if n := f.created(t); n != 1 {
		t.Fatalf("created %d", n)
	}
}

func TestScopeOfAKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*Request)
		created int
	}{
		"same":          {func(*Request) {}, 1},
		"other user":    {func(r *Request) { r.User = drive.NewID[drive.UserID]() }, 2},
		"other method":  {func(r *Request) { r.Method = "PUT" }, 2},
		"other route":   {func(r *Request) { r.Route = "/uploads" }, 2},
		"other key":     {func(r *Request) { r.Key = Key{text: "k2"} }, 2},
		"no key at all": {func(r *Request) { r.Key = Key{} }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			req := f.request(t, `"k1"`)
			f.once(t, req)
			c.change(&req)
			f.once(t, req)
			if n := f.created(t); n != c.created {
				t.Fatalf("created %d, want %d", n, c.created)
			}
		})
	}
}

func TestOnlySuccessIsStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	req := f.request(t, "k1")
	for status, stored := range map[int]int{199: 0, 300: 0, 409: 0, 200: 1} {
		resp, err := f.keys.Once(t.Context(), req, func(context.Context, *sqldb.Tx) (int, []byte, error) { return status, nil, nil })
		if err != nil || resp.Status != status {
			t.Fatalf("%+v, %v", resp, err)
		}
		if n := f.rows(t); n != stored {
			t.Fatalf("status %d: %d stored", status, n)
		}
		if _, err := f.keys.Purge(t.Context(), f.clock.Now().Add(48*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKeyEndsAfterADay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	req := f.request(t, "k1")
	f.once(t, req)
	f.clock.Advance(keyLife)
	req.Fingerprint = Fingerprint{2} // a new life, also for other contents
	if _, ok, err := f.keys.Lookup(t.Context(), f.db, req); err != nil || ok {
		t.Fatalf("found %v, error %v", ok, err)
	}
	if resp := f.once(t, req); resp.Replayed || string(resp.Body) != `{"id":2}` {
		t.Fatalf("%+v", resp)
	}
	if resp := f.once(t, req); !resp.Replayed || string(resp.Body) != `{"id":2}` {
		t.Fatalf("%+v", resp)
	}
}

func TestPurgeDeletesExpiredKeysInBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := purgeBatch + 20
	for i := range old {
		f.once(t, f.request(t, fmt.Sprint("old", i)))
	}
	f.clock.Advance(purgeAfter + time.Millisecond)
	young := f.request(t, "young")
	f.once(t, young)
	if n, err := f.keys.Purge(t.Context(), f.clock.Now()); err != nil || n != int64(old) {
		t.Fatalf("%d purged, error %v", n, err)
	}
	if resp := f.once(t, young); !resp.Replayed {
		t.Fatal("a living key was purged")
	}
}

// TestUnfinishedKeyIsInProgress: a row without a response, as seen on a database with row locks
// after a lock timeout, fails with InProgress.
func TestUnfinishedKeyIsInProgress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	req := f.request(t, "k1")
	if err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := f.keys.claim(ctx, tx, req)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	_, err := f.keys.Once(t.Context(), req, create)
	wantKind(t, err, drive.InProgress)
}
