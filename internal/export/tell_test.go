package export

import (
	"context"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Each thing that people want to be told of is told once: that a zip is ready, that it is about to
// end, that an export has failed.
func TestWhatBecomesOfAnExportIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	in := Request{Nodes: []drive.NodeID{w.put(t, "/a.pdf", "a")}}
	v := w.create(t, e, in)
	w.finish(t, e)
	cancelled := w.create(t, e, in)
	w.finish(t, e)
	if err := e.Cancel(t.Context(), w.who, cancelled.ID); err != nil {
		t.Fatal(err)
	}
	tell := func() {
		t.Helper()
		if err := e.releases.tellEnding(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	says := func(typ string, id drive.ExportID) int64 {
		return w.count(t, "SELECT COUNT(*) FROM outbox WHERE event LIKE ? AND event LIKE ?", "%"+typ+"%", "%"+id.String()+"%")
	}
	w.pass(6*24*time.Hour - time.Minute)
	if tell(); says("export.ending", v.ID) != 0 {
		t.Error("it was told too early")
	}
	w.pass(2 * time.Minute)
	tell()
	if tell(); says("export.sealed", v.ID) != 1 || says("export.ending", v.ID) != 1 || says("export.ending", cancelled.ID) != 0 {
		t.Errorf("%d, %d, %d records", says("export.sealed", v.ID), says("export.ending", v.ID), says("export.ending", cancelled.ID))
	}
	bad := w.create(t, e, in)
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE exports SET tries = ? WHERE id = ?", maxTries, bad.ID)
		return err
	})
	if err := e.queue.abort(t.Context(), w.claim(t, e), "unavailable"); err != nil {
		t.Fatal(err)
	}
	if w.get(t, e, bad.ID).State != Failed || says("export.failed", bad.ID) != 1 {
		t.Errorf("%d records of the one that failed", says("export.failed", bad.ID))
	}
}
