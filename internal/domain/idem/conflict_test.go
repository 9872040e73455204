package idem

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// debit is a request from the write-up's example: the key is the order, and a different amount is a
// conflict.
func (f *fixture) debit(t *testing.T, amount int) (Request, []byte) {
	t.Helper()
	req := f.request(t, "order-4711")
	req.Route, req.Fingerprint = "/debits", Fingerprint{byte(amount)}
	return req, fmt.Appendf(nil, `{"amount":%d}`, amount)
}

// TestConflictingDebitIsRecorded: a debit that is repeated with another amount is refused and
// recorded; with the same amount it gets the first response (SOURCES I4).
func TestConflictingDebitIsRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conflicts := NewConflicts(f.db, Options{Now: f.clock.Now})
	pay := func(amount int) error {
		req, body := f.debit(t, amount)
		_, err := f.keys.Once(t.Context(), req, create)
		if drive.IsKind(err, drive.KeyReused) {
			if err := conflicts.Record(t.Context(), req, body); err != nil {
				t.Fatal(err)
			}
		}
		return err
	}
	list := func() []Conflict {
		t.Helper()
		all, next, err := conflicts.List(t.Context(), f.user, "", 10)
		if err != nil || next != "" {
			t.Fatal(next, err)
		}
		return all
	}
	for range 2 {
		if err := pay(10); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		f.clock.Advance(time.Minute)
		wantKind(t, pay(20), drive.KeyReused)
	}
	wantKind(t, pay(30), drive.KeyReused)
	all := list()
	if len(all) != 2 || all[0].Request != `{"amount":20}` || all[0].Times != 3 || all[0].Key != "order-4711" || all[0].Route != "/debits" ||
		all[0].LastAt.Sub(all[0].FirstAt) != 2*time.Minute || all[1].Times != 1 {
		t.Fatalf("%+v", all)
	}
	if n := f.created(t); n != 1 {
		t.Errorf("%d debits", n)
	}
	wantKind(t, conflicts.Resolve(t.Context(), drive.NewID[drive.UserID](), all[0].ID), drive.NotFound)
	if err := conflicts.Resolve(t.Context(), f.user, all[0].ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, conflicts.Resolve(t.Context(), f.user, all[0].ID), drive.NotFound)
	if err := conflicts.Purge(t.Context(), f.clock.Now().Add(conflictKeep)); err != nil {
		t.Fatal(err)
	}
	if len(list()) != 1 {
		t.Error("one that was repeated within 90 days is gone")
	}
	if err := conflicts.Purge(t.Context(), f.clock.Now().Add(conflictKeep+time.Second)); err != nil {
		t.Fatal(err)
	}
	if all := list(); len(all) != 0 {
		t.Errorf("after 90 days there are %+v", all)
	}
}

func TestConflictsAreBoundedAndKeepNoSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conflicts := NewConflicts(f.db, Options{Now: f.clock.Now})
	record := func(n int, secret bool, body string) {
		t.Helper()
		req := f.request(t, fmt.Sprint("k", n))
		req.Secret = secret
		if err := conflicts.Record(t.Context(), req, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range MaxConflicts {
			if _, err := tx.Exec(ctx, "INSERT INTO key_conflicts (id, user_id, method, route, `key`, fingerprint, body, times, first_at, last_at) "+
				"VALUES (?, ?, 'POST', '/old', ?, ?, '', 1, 0, 0)", drive.NewID[drive.ConflictID](), f.user, fmt.Sprint(i), make([]byte, 32)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	record(1, true, `{"code":"1234"}`)
	record(2, false, strings.Repeat("x", 2*maxConflictBody))
	var all []Conflict
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := conflicts.List(t.Context(), f.user, cursor, 300)
		if err != nil {
			t.Fatal(err)
		}
		all, cursor = append(all, page...), next
	}
	if len(all) != MaxConflicts || all[0].Key != "2" {
		t.Errorf("there are %d, the oldest %+v", len(all), all[0])
	}
	if secret, long := all[len(all)-2], all[len(all)-1]; secret.Request != "" || len(long.Request) != maxConflictBody {
		t.Errorf("kept %q and %d bytes", secret.Request, len(long.Request))
	}
	_, _, err = conflicts.List(t.Context(), f.user, "1", 10)
	wantKind(t, err, drive.CursorInvalid)
}
