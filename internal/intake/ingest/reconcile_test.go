package ingest

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// TestFailedAccountStopsNoOther checks that an error of one account is logged, does
// not stop the pass, and that the account is compared once that is possible.
func TestFailedAccountStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log bytes.Buffer
	in := w.process(w.db, "1", func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	r := in.newReconciler()
	w.deaf.Store(true)
	damaged, sound := newParcel("acme").lines("a.ndjson", docs("A", 1)...), newParcel("bolt").lines("b.ndjson", docs("B", 1)...)
	w.sendMeta(t, damaged)
	first := w.who
	w.addAccount(t) // sorts after the first account
	w.sendMeta(t, sound)
	version := func(set string) {
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE nodes SET version_id = "+set+" WHERE account_id = ? AND slot = 'meta.json'", first.Account)
			return err
		})
	}
	version("'damaged'")
	known := func() int64 { return w.count(t, "SELECT COUNT(*) FROM bundles") }
	for range 2 { // all accounts, then the known ones
		if err := r.pass(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got := known(); got != 1 {
			t.Fatalf("%d bundles are known, not that of the sound account", got)
		}
		if !strings.Contains(log.String(), first.Account.String()) {
			t.Errorf("the log does not name the account: %s", &log)
		}
		log.Reset()
	}
	r.after = w.who.Account.String() // the round over all accounts has passed both
	version("(SELECT v.id FROM versions v WHERE v.node_id = nodes.id)")
	if err := r.pass(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := known(); got != 2 || log.Len() > 0 && strings.Contains(log.String(), "compared") {
		t.Errorf("%d bundles are known after the repair; the log: %s", got, &log)
	}
}

// TestUnavailableDatabaseEndsPass checks that an unavailable database ends the pass without
// blaming an account, and that the next pass compares all.
func TestUnavailableDatabaseEndsPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log bytes.Buffer
	var faults sqldbtest.Faults
	in := w.process(w.open(t, faults.Connector), "1", func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	r := in.newReconciler()
	w.deaf.Store(true)
	w.sendMeta(t, newParcel("acme").lines("a.ndjson", docs("A", 1)...))
	w.addAccount(t)
	w.sendMeta(t, newParcel("bolt").lines("b.ndjson", docs("B", 1)...))
	for n := range 100 { // the first query lists the accounts
		faults.Fail(sqldbtest.Query, n+2, nil)
	}
	if err := r.compareNext(t.Context(), 0); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("the pass ends with %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("the log: %s", &log)
	}
	faults.Clear()
	if err := r.pass(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := w.count(t, "SELECT COUNT(*) FROM bundles"); got != 2 {
		t.Errorf("%d bundles are known, want 2; the log: %s", got, &log)
	}
}
