package innodb

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/engine/sqldb"
)

// clicks is a user who sends one creation again and again.
type clicks struct {
	drives
	keys *idem.Keys
	req  idem.Request
	now  atomic.Int64 // Unix ms
}

func newClicks(t *testing.T, prepared bool) *clicks {
	t.Helper()
	c := &clicks{drives: newDrive(t)}
	c.now.Store(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).UnixMilli())
	opt := idem.Options{Now: func() time.Time { return time.UnixMilli(c.now.Load()) }}
	c.keys = idem.NewKeys(c.DB, opt)
	ids, err := idem.OpenPreparedIDs(t.Context(), c.DB, opt)
	must(t, err)
	user, text := drive.NewID[drive.UserID](), "double-click"
	if prepared {
		text, _ = ids.New(user)
	}
	key, err := ids.ParseKey(user, text)
	must(t, err)
	c.req = idem.Request{User: user, Method: "POST", Route: "/nodes", Key: key, Fingerprint: idem.Fingerprint{1}}
	exec(t, c.raw, "CREATE TABLE things (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, x INT NOT NULL) ENGINE=InnoDB")
	return c
}

// create is the effect: a thing, and an answer that tells which.
func create(ctx context.Context, tx *sqldb.Tx) (int, []byte, error) {
	id, err := tx.Insert(ctx, "INSERT INTO things (x) VALUES (0)")
	return 201, fmt.Append(nil, id), err
}

func (c *clicks) do(resp *idem.Response) func(context.Context, *sqldb.Tx) error {
	return func(ctx context.Context, tx *sqldb.Tx) (err error) {
		*resp, err = c.keys.Do(ctx, tx, c.req, create)
		return err
	}
}

// ask runs do in the background, as a client that retries.
func (c *clicks) ask(t *testing.T, resp *idem.Response) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- patiently(func() error { return c.Write(t.Context(), c.do(resp)) }) }()
	return done
}

// patiently repeats the request while the first use of its key has not ended. On a busy machine
// this may take longer than a reply waits.
func patiently(once func() error) error {
	for {
		if err := once(); !drive.IsKind(err, drive.InProgress) {
			return err
		}
	}
}

// A double click without a key makes two things: nothing about the requests tells them apart from
// two wishes.
func TestDoubleClickWithoutAKeyMakesTwo(t *testing.T) {
	t.Parallel()
	c := newClicks(t, false)
	c.req.Key = idem.Key{}
	must(t, errors.Join(atOnce(2, func(int) error {
		_, err := c.keys.Once(t.Context(), c.req, create)
		return err
	})...))
	c.want(t, "SELECT COUNT(*) FROM things", "2")
}

// With one, all get the first one's answer.
func TestDoubleClickMakesOne(t *testing.T) {
	t.Parallel()
	for name, prepared := range map[string]bool{"key": false, "prepare id": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClicks(t, prepared)
			bodies := make([]string, 64)
			must(t, errors.Join(atOnce(len(bodies), func(i int) error {
				return patiently(func() error {
					resp, err := c.keys.Once(t.Context(), c.req, create)
					bodies[i] = string(resp.Body)
					return err
				})
			})...))
			for _, body := range bodies {
				if body != bodies[0] {
					t.Fatalf("answers %q and %q", bodies[0], body)
				}
			}
			c.want(t, "SELECT COUNT(*) FROM things", "1")
		})
	}
}

// The second waits on the row that the first has inserted, and answers as the first did.
func TestSecondUserOfAKeyWaits(t *testing.T) {
	t.Parallel()
	c := newClicks(t, false)
	var a, b idem.Response
	first := c.hold(t, c.do(&a))
	second := c.ask(t, &b)
	c.raw.awaitWaiting(t, 1)
	first.commit(t)
	must(t, <-second)
	if !b.Replayed || string(a.Body) != string(b.Body) {
		t.Fatalf("answers %+v and %+v", a, b)
	}
}

// The first transaction rolls back while two wait, and those deadlock. One of them becomes the
// first, and the other gets its response.
func TestKeyAfterFirstUseRollsBack(t *testing.T) {
	t.Parallel()
	c := newClicks(t, false)
	var a, b, x idem.Response
	first := c.hold(t, c.do(&x))
	second := c.ask(t, &a)
	c.raw.awaitWaiting(t, 1)
	third := c.ask(t, &b)
	c.raw.awaitWaiting(t, 2)
	first.rollBack(t)
	must(t, errors.Join(<-second, <-third))
	c.reran(t)
	if a.Replayed == b.Replayed || string(a.Body) != string(b.Body) {
		t.Fatalf("answers %+v and %+v", a, b)
	}
	c.want(t, "SELECT COUNT(*) FROM things", "1")
}

// A request that has waited too long for the first use of its key is told to retry and changes
// nothing.
func TestSecondUseOfKeyWaitsBoundedTime(t *testing.T) {
	t.Parallel()
	c := newClicks(t, false)
	var a, b idem.Response
	first := c.hold(t, c.do(&a))
	wantKind(t, <-c.write(t, c.do(&b)), drive.InProgress)
	first.commit(t)
	c.want(t, "SELECT COUNT(*) FROM things", "1")
}

// Several requests take over an expired key that has not been purged. Each holds the duplicate's
// shared lock, which blocks all others.
func TestExpiredKeyIsTakenOverOnce(t *testing.T) {
	t.Parallel()
	c := newClicks(t, false)
	_, err := c.keys.Once(t.Context(), c.req, create)
	must(t, err)
	c.now.Add((25 * time.Hour).Milliseconds())
	gate := c.raw.session(t, readCommitted)
	gate.must("SELECT status FROM idempotency FOR UPDATE")
	var later [12]<-chan error
	for i := range later {
		later[i] = c.ask(t, new(idem.Response))
	}
	c.raw.awaitWaiting(t, len(later))
	gate.commit()
	for _, done := range later {
		must(t, <-done)
	}
	c.reran(t)
	c.want(t, "SELECT COUNT(*) FROM things", "2")
}
