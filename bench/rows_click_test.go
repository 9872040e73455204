//go:build linux

package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/time/rate"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/engine/sqldb"
)

// BenchmarkClicks compares ways to create one thing for a double click (SOURCES I3): 500 people
// click twice at once, which makes 1,000 requests over 32 connections. "Made" is the number of
// things created for the 500 wishes.
//
//	go test ./bench -run XXX -bench Clicks -benchtime 1x
func BenchmarkClicks(b *testing.B) {
	s := openRows(b, "READ-COMMITTED")
	_, err := s.db.ExecContext(b.Context(), "CREATE TABLE "+s.driveName+
		".things (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, maker INT NOT NULL) ENGINE=InnoDB")
	must(b, err)
	_, err = s.db.ExecContext(b.Context(), "CREATE TABLE "+s.driveName+
		".prepared (pre_id VARCHAR(64) NOT NULL PRIMARY KEY, used BIGINT) ENGINE=InnoDB")
	must(b, err)
	for b.Loop() {
		s.compareClicks(b)
	}
	s.close(b)
	b.ReportMetric(0, "ns/op")
}

const wishes = requests / 2

// guard is a way to distinguish a second click from a second wish. handOut runs once per wish,
// before the clicks.
type guard struct {
	name    string
	handOut func(wish int) error
	click   func(wish, nth int) error
}

var errRefused = errors.New("refused: too fast")

// compareClicks runs all guards alternately several times and prints the table.
func (s *rowServer) compareClicks(b *testing.B) {
	b.Helper()
	type series struct {
		outcomes

		made sample
	}
	var all []series
	var names []string
	for range rounds(5) {
		for i, g := range s.guards(b) {
			if i == len(all) {
				all, names = append(all, series{}), append(names, g.name)
			}
			out, made := s.click(b, g)
			all[i].add(out)
			all[i].made.add(made)
		}
	}
	baseline := all[len(all)-1].perSecond
	rows := [][]any{{"guard", "made", "refused", "requests/s", "of the baseline", "p50 ms", "p99 ms", "reruns", "statements"}}
	for i, o := range all {
		rows = append(rows, []any{
			names[i], spread(o.made), spread(o.failed), spread(o.perSecond), spread(o.perSecond.over(baseline)),
			spread(o.p50), spread(o.p99), spread(o.deadlocks), spread(o.statements),
		})
	}
	table(b, fmt.Sprintf("%d people click twice; %s; %s", wishes, s.isolation, s.version), rows...)
}

// click sends two clicks per person. The preparation counts as statements but not as time, because
// nobody waits for it.
func (s *rowServer) click(b *testing.B, g guard) (out outcome, made float64) {
	b.Helper()
	for _, name := range []string{"things", "prepared"} {
		_, err := s.db.ExecContext(b.Context(), "TRUNCATE TABLE "+s.driveName+"."+name)
		must(b, err)
	}
	calls, reruns := s.calls.Total(), s.drive.Stats().Reruns.Load()
	for wish := range wishes {
		if g.handOut != nil {
			must(b, g.handOut(wish))
		}
	}
	out = storm(func(i int) error { return g.click(i/2, i%2) })
	out.statements = float64(s.calls.Total()-calls) / requests
	out.deadlocks = float64(s.drive.Stats().Reruns.Load() - reruns)
	must(b, s.db.QueryRowContext(b.Context(), "SELECT COUNT(*) FROM "+s.driveName+".things").Scan(&made))
	return out, made
}

func makeThing(ctx context.Context, tx *sqldb.Tx) (int, []byte, error) {
	id, err := tx.Insert(ctx, "INSERT INTO things (maker) VALUES (1)")
	return 201, fmt.Append(nil, id), err
}

// guards returns the guards for a round. The last one is the method of SmartDrive's own clients and
// is the baseline.
func (s *rowServer) guards(b *testing.B) []guard {
	b.Helper()
	keys := idem.NewKeys(s.drive, idem.Options{})
	ids, err := idem.OpenPreparedIDs(b.Context(), s.drive, idem.Options{})
	must(b, err)
	user := drive.NewID[drive.UserID]()
	once := func(text string) error {
		key, err := ids.ParseKey(user, text)
		if err != nil {
			return err
		}
		_, err = keys.Once(b.Context(), idem.Request{User: user, Method: "POST", Route: "/things", Key: key}, makeThing)
		return err
	}
	prefix, prepared := rand.Text(), make([]string, wishes)
	return []guard{
		{name: "none", click: func(int, int) error { return unguarded(b, user, keys) }},
		{name: "rate limit, 1/s, one instance", click: limited(1, func() error { return unguarded(b, user, keys) })},
		{name: "rate limit, 1/s, two instances", click: limited(2, func() error { return unguarded(b, user, keys) })},
		{
			name:    "stored pre_id, taken in the transaction",
			handOut: func(wish int) error { return s.prepare(b.Context(), fmt.Sprint(prefix, wish)) },
			click:   func(wish, _ int) error { return s.consume(b.Context(), fmt.Sprint(prefix, wish)) },
		},
		{
			name:    "smartdrive: signed pre_id",
			handOut: func(wish int) error { prepared[wish], _ = ids.New(user); return nil },
			click:   func(wish, _ int) error { return once(prepared[wish]) },
		},
		{name: "smartdrive: Idempotency-Key", click: func(wish, _ int) error { return once(fmt.Sprint(prefix, wish)) }},
	}
}

// unguarded creates a thing without an idempotency key.
func unguarded(b *testing.B, user drive.UserID, keys *idem.Keys) error {
	b.Helper()
	_, err := keys.Once(b.Context(), idem.Request{User: user, Method: "POST", Route: "/things"}, makeThing)
	return err
}

// limited allows each person one request per second. The clicks of a person alternate between
// instances, each with its own limiter.
func limited(instances int, do func() error) func(wish, nth int) error {
	limits := make([]*rate.Limiter, wishes*instances)
	for i := range limits {
		limits[i] = rate.NewLimiter(1, 1)
	}
	return func(wish, nth int) error {
		if !limits[wish*instances+nth%instances].Allow() {
			return errRefused
		}
		return do()
	}
}

// prepare issues an id by storing it, as the articles do; consume deletes it once, under the lock
// of its row.
func (s *rowServer) prepare(ctx context.Context, id string) error {
	return s.drive.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO prepared (pre_id) VALUES (?)", id)
		return err
	})
}

func (s *rowServer) consume(ctx context.Context, id string) error {
	return s.drive.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var used *int64
		if err := tx.QueryRow(ctx, "SELECT used FROM prepared WHERE pre_id = ? FOR UPDATE", id).Scan(&used); err != nil || used != nil {
			return err // the response is the created thing
		}
		made, err := tx.Insert(ctx, "INSERT INTO things (maker) VALUES (1)")
		if err == nil {
			_, err = tx.Exec(ctx, "UPDATE prepared SET used = ? WHERE pre_id = ?", made, id)
		}
		return err
	})
}
