package export

import (
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Each event is published once: sealed, ending soon, failed.
func TestBatchEventsArePublished(t *testing.T) {
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
		if err := e.releaser.publishEnding(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	says := func(typ string, id drive.ExportID) int64 {
		return w.count(t, "SELECT COUNT(*) FROM outbox WHERE event LIKE ? AND event LIKE ?", "%"+typ+"%", "%"+id.String()+"%")
	}
	w.advance(6*24*time.Hour - time.Minute)
	if tell(); says("export.ending", v.ID) != 0 {
		t.Error("it was told too early")
	}
	w.advance(2 * time.Minute)
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

// A late batch is reported once, by any number of instances; an ended or never started one is not.
func TestLateBatchIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	in := Request{Nodes: []drive.NodeID{w.put(t, "/a.pdf", "a")}}
	ended := w.create(t, e, in)
	w.finish(t, e)
	slow := w.create(t, e, in)
	b := w.claim(t, e)
	waiting := w.create(t, e, in)
	says := func(id drive.ExportID) int64 {
		return w.count(t, "SELECT COUNT(*) FROM outbox WHERE event LIKE '%export.late%' AND event LIKE ?", "%"+id.String()+"%")
	}
	for _, c := range []struct {
		pass time.Duration
		want int64
	}{{time.Hour - time.Minute, 0}, {2 * time.Minute, 1}, {time.Hour, 1}} {
		w.advance(c.pass)
		for _, process := range []*Exports{e, w.process(w.db, "two")} {
			if err := process.releaser.publishLate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := says(slow.ID); n != c.want || says(ended.ID)+says(waiting.ID) != 0 {
			t.Errorf("it was told %d times, want %d; others %d, %d", n, c.want, says(ended.ID), says(waiting.ID))
		}
	}
	if b.ID != slow.ID {
		t.Errorf("%s was claimed", b.ID)
	}
}
