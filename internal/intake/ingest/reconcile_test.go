package ingest

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"smartdrive/internal/engine/sqldb"
)

// An account that cannot be compared keeps no other from it. It is logged, and compared as soon as
// it can be.
func TestAnAccountThatCannotBeComparedStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log bytes.Buffer
	in := w.process(w.db, "1", func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	r := in.newReconciler()
	w.deaf.Store(true)
	damaged, sound := newParcel("acme").lines("a.ndjson", docs("A", 1)...), newParcel("bolt").lines("b.ndjson", docs("B", 1)...)
	w.sendMeta(t, damaged)
	first := w.who
	w.addAccount(t) // behind the first one in each page
	w.sendMeta(t, sound)
	version := func(set string) {
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE nodes SET version_id = "+set+" WHERE account_id = ? AND slot = 'meta.json'", first.Account)
			return err
		})
	}
	version("'damaged'")
	known := func() int64 { return w.count(t, "SELECT COUNT(*) FROM bundles") }
	for range 2 { // all accounts, then those that are known
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
	r.after = w.who.Account.String() // the round of all accounts is past them
	version("(SELECT v.id FROM versions v WHERE v.node_id = nodes.id)")
	if err := r.pass(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := known(); got != 2 || log.Len() > 0 && strings.Contains(log.String(), "compared") {
		t.Errorf("%d bundles are known after the repair; the log: %s", got, &log)
	}
}
