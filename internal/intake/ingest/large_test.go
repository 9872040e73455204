package ingest

import (
	"context"
	"errors"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// TestAPageOfLargeConflictsIsShort checks that a page of conflicts ends at its limit of bytes, and
// that the next page continues.
func TestAPageOfLargeConflictsIsShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	for total := range int64(2) {
		w.send(t, newParcel("acme").lines("a.ndjson", doc("A", total+1), doc("B", total+1), doc("C", total+1)))
		w.finish(t, in)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE document_conflicts SET body = ?", make([]byte, maxPacked*3/4))
		return err
	})
	var after drive.ConflictID
	for _, want := range []struct {
		n    int
		more bool
	}{{2, true}, {1, false}} {
		page, more, err := in.Disputes(t.Context(), w.who, drive.DocumentID{}, after, 10)
		if err != nil || len(page) != want.n || more != want.more {
			t.Fatalf("a page of %d, more: %t, %v; want %d, %t", len(page), more, err, want.n, want.more)
		}
		after = page[len(page)-1].ID
	}
}

// TestOneLargeMemberAtATime checks that one large member is decoded at a time, while small ones do
// not wait.
func TestOneLargeMemberAtATime(t *testing.T) {
	t.Parallel()
	in := newWorld(t).process(nil, "1")
	large := member{Size: largeMember + 1}
	end, err := in.workers.alone(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := in.workers.alone(given, large); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one beside it: %v", err)
	}
	if _, err := in.workers.alone(given, member{Size: largeMember}); err != nil {
		t.Errorf("a smaller one beside it: %v", err)
	}
	end()
	if end, err = in.workers.alone(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	end()
}
